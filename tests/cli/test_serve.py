"""``carrel serve`` as a user runs it: one screen, one process for a data directory, and no loss at any end."""

import asyncio
import json
import os
import pty
import pwd
import select
import shlex
import shutil
import signal
import socket
import stat as modes
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
import httpx2
import pytest

from app.db.requirements import EARLIER_SCHEMA_MESSAGE
from harness.consistency import find_inconsistencies
from harness.protocol_servers.embedding import EmbeddingServer
from tests.cli.commands import (
    HANG_SECONDS,
    Command,
    descendants,
    run,
    serving,
    started,
    stat,
    wait_until,
    wait_until_ended,
    worker_of,
)
from tests.cli.conftest import embedding_settings

A_FILE = Path(__file__).parents[1] / "samples" / "two_columns.pdf"
DOCUMENTS = "/v1/knowledge-bases/default/documents"


@pytest.fixture(scope="module")
def home(new_place: Callable[[], Path]) -> Path:
    """Directory of the services of this module, which run one after the other on one data directory."""
    return new_place()


@pytest.fixture(scope="module")
def settings(endpoint: EmbeddingServer) -> dict[str, str]:
    """Settings of all services of this module."""
    return embedding_settings(endpoint)


@pytest.fixture(scope="module")
def key(home: Path, settings: dict[str, str]) -> str:
    """API key that the first start created."""
    with serving(home, **settings) as first:
        assert first.end() == 0
        return first.key


def mode(path: Path) -> int:
    return modes.S_IMODE(path.stat().st_mode)


def ask(command: Command, path: str) -> Any:
    with command.client() as client:
        return client.get(path).raise_for_status().json()


@pytest.mark.capability("cli-serve")
def test_serve_first_start_writes_credentials_with_closed_modes(place: Path) -> None:
    with serving(place) as first:
        data = place / ".carrel"
        assert first.url.startswith("http://127.0.0.1:")
        assert str(data) in first.screen
        kept = data / "credentials.json"
        assert json.loads(kept.read_text()) == {"url": first.url, "api_key": first.key}
        for name in ("credentials.json", "operator-key", "runtime.json"):
            assert mode(data / name) == 0o600
        assert mode(data) & 0o066 == 0
        assert mode(data / "postgres") & 0o066 == 0

        # Standard output is no terminal, so the key is only in its file; the printed commands read it there.
        assert "carrel_" not in first.screen
        lines = first.screen[first.screen.index("KEY=") : first.screen.index("Ctrl-C")].strip()
        lines = lines.replace("file=@handbook.pdf", shlex.quote(f"file=@{A_FILE}"))
        if shutil.which("curl"):
            reply = subprocess.run(["sh", "-c", f"{lines} -s"], capture_output=True, check=True, timeout=60)
            assert json.loads(reply.stdout)["status"] == "ready"

        second = run(place, "serve", "--port", "0")
        assert second.returncode == 1
        assert second.stdout == ""
        assert second.stderr == (
            f"carrel: the data directory {data} is in use by another Carrel (process {first.process.pid})\n"
        )
        assert ask(first, "/v1/me")["tenant"]["name"] == "local"

        # Ctrl-C in a terminal reaches every process of the foreground group.
        below = descendants(first.process.pid)
        assert len(below) > 3
        os.killpg(first.process.pid, signal.SIGINT)
        assert first.process.wait(60) == 0
        wait_until_ended(below)
    assert not (data / "runtime.json").exists()
    lonely = run(place, "worker")
    assert (lonely.returncode, lonely.stdout) == (1, "")
    assert lonely.stderr == f"carrel: no service runs on {data}; start `carrel serve`, or set CARREL_DATABASE_URL\n"


def screen_of_terminal(directory: Path, settings: dict[str, str]) -> str:
    """Start ``carrel serve`` on a terminal, and stop it when it serves."""
    ours, theirs = pty.openpty()
    with started(directory, "serve", "--port", "0", stdout=theirs, **settings) as command:
        os.close(theirs)
        screen = b""
        while b"Ctrl-C stops it." not in screen:
            assert select.select([ours], [], [], HANG_SECONDS)[0], command.log.read_text()
            screen += os.read(ours, 65536)
        assert command.end() == 0
    os.close(ours)
    return screen.decode().replace("\r\n", "\n")


def test_serve_shows_new_key_once_and_only_on_terminal(place: Path, settings: dict[str, str]) -> None:
    first = screen_of_terminal(place, settings)
    kept = place / ".carrel" / "credentials.json"
    key = json.loads(kept.read_text())["api_key"]
    assert first.count(key) == 2
    assert f"/#key={key}\n" in first
    assert f"kept in {kept}" in first
    again = screen_of_terminal(place, settings)
    assert key not in again
    assert f"Key        in {kept}" in again
    with serving(place, **settings) as piped:
        assert key not in piped.screen
        assert piped.key == key
        assert piped.end() == 0
        assert key not in piped.log.read_text()


def test_serve_occupied_port_prints_one_line(home: Path, key: str, settings: dict[str, str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        refused = run(home, "serve", "--port", str(port), **settings)
    assert refused.returncode == 1
    *logged, last = refused.stderr.splitlines()
    assert last == f"carrel: cannot listen on 127.0.0.1 port {port}: Address already in use; choose another with --port"
    assert all(line.startswith("{") for line in logged)


async def call_it_a_database_of_before(home: Path) -> None:
    connection = await asyncpg.connect(
        json.loads((home / ".carrel" / "runtime.json").read_text())["admin_database_url"]
    )
    try:
        await connection.execute("update alembic_version set version_num = '0053'")
    finally:
        await connection.close()


def test_serve_data_directory_before_baseline_prints_one_line(place: Path, settings: dict[str, str]) -> None:
    with serving(place, **settings) as first:
        asyncio.run(call_it_a_database_of_before(place))
        assert first.end() == 0
    refused = run(place, "serve", "--port", "0", **settings)
    assert (refused.returncode, refused.stdout) == (1, "")
    *logged, last = refused.stderr.splitlines()
    assert last == f"carrel: {EARLIER_SCHEMA_MESSAGE}"
    assert all(line.startswith("{") for line in logged)


async def recounted(home: Path) -> dict[str, list[Any]]:
    url = json.loads((home / ".carrel" / "runtime.json").read_text())["admin_database_url"]
    return await find_inconsistencies(url)


def test_serve_work_interrupted_by_kill_is_finished_once(
    home: Path, key: str, settings: dict[str, str], texts: list[str]
) -> None:
    with serving(home, **settings) as first:
        assert first.key == key
        with first.client() as client:
            for text in texts:
                client.post(DOCUMENTS, json={"text": text}).raise_for_status()
            wait_until(lambda: client.get(DOCUMENTS, params={"status": "embedding"}).json()["items"])
        below = descendants(first.process.pid)
        first.process.kill()
        first.process.wait(60)
        wait_until_ended(below)

    with serving(home, **settings) as second:
        assert second.key == key
        with second.client() as client:

            def ready() -> list[dict[str, Any]]:
                found: list[dict[str, Any]] = client.get(DOCUMENTS, params={"status": "ready"}).json()["items"]
                return found

            # Only the worker is killed, as by the kernel when memory runs out. Serve starts another.
            wait_until(lambda: client.get(DOCUMENTS, params={"status": "embedding"}).json()["items"])
            lost = worker_of(second.process.pid)
            os.kill(lost, signal.SIGKILL)
            wait_until(lambda: len(ready()) == len(texts))
            assert worker_of(second.process.pid) != lost
            assert [event["status"] for event in second.events("worker.died")] == [-signal.SIGKILL]
            documents = ready()
            assert asyncio.run(recounted(home)) == {}
            for text in texts:
                again = client.post(DOCUMENTS, json={"text": text})
                assert again.status_code == 200
                assert again.json()["id"] in {document["id"] for document in documents}
            assert len(ready()) == len(texts)
        below = descendants(second.process.pid)
        assert second.end(signal.SIGTERM) == 0
        wait_until_ended(below)


def test_serve_replaces_frozen_worker(home: Path, key: str, settings: dict[str, str]) -> None:
    """The event loop writes a heartbeat every second. A frozen process stops the heartbeat."""
    with serving(home, **settings, CARREL_WORKER_HEARTBEAT_TIMEOUT_SECONDS="5") as service, service.client() as client:
        assert service.key == key
        service.wait_for("worker.started")
        wait_until(lambda: client.get("/readyz").json()["status"] == "ok")
        frozen = worker_of(service.process.pid)
        os.kill(frozen, signal.SIGSTOP)
        wait_until(lambda: service.events("worker.silent"))
        wait_until(lambda: service.events("worker.died"))
        assert next_line(service).startswith("The worker sent no heartbeat for 5 s, so Carrel ended it.")
        assert next_line(service) == "The worker is back."
        (died,) = service.events("worker.died")
        assert (died["status"], died["reason"], died["ends"]) == (-signal.SIGKILL, "a missing heartbeat", 1)
        wait_until(lambda: len(service.events("worker.started")) == 2)
        reply = client.post(DOCUMENTS, params={"wait": 30}, json={"text": "After the frost."})
        assert reply.json()["status"] == "ready"


def next_line(service: Command) -> str:
    """Return the next line that serve prints after its first screen."""
    assert service.process.stdout is not None
    line = b""
    while not line.strip() or not line.endswith(b"\n"):
        assert select.select([service.process.stdout], [], [], HANG_SECONDS)[0], service.log.read_text()
        piece = os.read(service.process.stdout.fileno(), 1)
        assert piece, service.log.read_text()
        line += piece
    return line.decode().strip()


def test_serve_reports_crash_loop_while_another_worker_lives(home: Path, key: str, settings: dict[str, str]) -> None:
    with serving(home, **settings) as service, service.client() as client, started(home, "worker", **settings) as other:
        assert service.key == key
        other.wait_for("worker.started")
        for number in range(1, 4):
            service.wait_for("worker.started", count=number)
            os.kill(worker_of(service.process.pid), signal.SIGKILL)
            service.wait_for("worker.died", count=number)
            line = next_line(service)
            if number < 3:
                assert line.startswith("The worker ended: signal SIGKILL. Carrel starts a new one in ")
                assert next_line(service) == "The worker is back."
        assert line.startswith("The worker keeps ending: 3 times within ten minutes, the last time by signal SIGKILL.")
        ready = client.get("/readyz")
        assert (ready.status_code, ready.json()) == (
            200,
            {
                "status": "degraded",
                "checks": {
                    "database": "ok",
                    "object_store": "ok",
                    "worker": "ok",
                    "worker_restarts": "it ended 3 times within ten minutes, the last time by signal SIGKILL",
                },
            },
        )
        found = {one["check"]: one for one in json.loads(run(home, "doctor", "--json", **settings).stdout)}
        assert found["worker restarts"]["state"] == "failed"
        assert "keeps ending (it ended 3 times" in found["worker restarts"]["detail"]
        assert found["workers"]["state"] == "ok"
        assert next_line(service) == "The worker is back."
        assert other.end() == 0


def test_serve_readiness_reports_absent_worker(home: Path, key: str, settings: dict[str, str]) -> None:
    """The API continues and answers 200, so that a load balancer does not remove it."""
    with serving(home, "--api-only", **settings) as service, service.client() as client:
        assert service.key == key
        asyncio.run(forget_workers(home))
        reply = client.get("/readyz")
        assert (reply.status_code, reply.json()["status"], reply.json()["checks"]["worker"]) == (
            200,
            "degraded",
            "absent",
        )


async def forget_workers(home: Path) -> None:
    connection = await asyncpg.connect(
        json.loads((home / ".carrel" / "runtime.json").read_text())["admin_database_url"]
    )
    try:
        await connection.execute("delete from worker_heartbeat")
    finally:
        await connection.close()


def test_serve_with_closed_output_continues(home: Path, key: str, settings: dict[str, str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with started(home, "serve", "--port", "0", stdout=writing, **settings) as unread:
        os.close(writing)
        unread.wait_for("Application startup complete.")
        kept = home / ".carrel" / "credentials.json"
        url = json.loads(kept.read_text())["url"]
        wait_until(lambda: httpx2.get(f"{url}/healthz").status_code == 200)
        unread.wait_for("worker.started")
        assert unread.end() == 0
        assert "Traceback" not in unread.log.read_text()


def test_serve_as_ordinary_user_needs_no_privileges(new_place: Callable[[], Path]) -> None:
    if os.geteuid() != 0:
        pytest.skip("the other tests are run by an ordinary user already")
    account = pwd.getpwnam("nobody")
    reach = [sys.executable, "-c", "import app.cli, onnxruntime"]
    try:
        subprocess.run(
            reach, user=account.pw_uid, group=account.pw_gid, extra_groups=[], check=True, capture_output=True
        )
    except (PermissionError, subprocess.CalledProcessError):
        pytest.skip(f"user nobody cannot run {sys.executable}: it is below a closed directory")
    directory = new_place()
    os.chown(directory, account.pw_uid, account.pw_gid)
    with serving(directory, user="nobody") as service:
        below = descendants(service.process.pid)
        assert {Path(f"/proc/{pid}").stat().st_uid for pid in below if stat(pid)} == {account.pw_uid}
        with service.client() as client:
            made = client.post(DOCUMENTS, params={"wait": 30}, json={"text": "Geese fly south."}).json()
            assert made["status"] == "ready"
        assert service.end() == 0
        wait_until_ended(below)


def test_serve_restarts_killed_postgres(home: Path, settings: dict[str, str], key: str) -> None:
    with serving(home, **settings) as service, service.client(key) as client:
        with A_FILE.open("rb") as file:
            made = client.post(DOCUMENTS, params={"wait": 60}, files={"file": file}).raise_for_status().json()
        for _ in range(2):
            [killed] = postmasters(service)
            os.kill(killed, signal.SIGKILL)
            wait_until(partial(is_back, service, client, killed))
        assert client.get(f"{DOCUMENTS}/{made['id']}").raise_for_status().json()["status"] == "ready"
        body = {"text": "After the night."}
        again = client.post(DOCUMENTS, params={"wait": 60}, json=body).raise_for_status().json()
        assert again["status"] == "ready"
        assert service.end() == 0
        assert len(service.events("database.restarted")) == 2


def postmasters(service: Command) -> set[int]:
    """Return the postmaster processes; processes of sessions have another title."""
    return {child for child in descendants(service.process.pid) if is_postmaster(child)}


def is_back(service: Command, client: httpx2.Client, killed: int) -> bool:
    return bool(postmasters(service) - {killed}) and client.get("/readyz").is_success


def is_postmaster(pid: int) -> bool:
    try:
        return b"listen_addresses" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
