"""``carrel serve`` connects to configured addresses alone, and writes to its own directories alone."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

import app
from harness.protocol_servers.embedding import EmbeddingServer
from tests.cli.commands import HANG_SECONDS, LAST_LINE, Command, environment, run, wait_until
from tests.cli.conftest import embedding_settings
from tests.cli.observed_process import Observed, observed, traced

DOCUMENTS = "/v1/knowledge-bases/default/documents"
OWN_TEMPORARY = re.compile(r"carrel-")
HOMES = {
    "HOME": "home",
    "TMPDIR": "temporary",
    "XDG_CACHE_HOME": "cache",
    "XDG_CONFIG_HOME": "configuration",
    "XDG_DATA_HOME": "shared",
    "XDG_STATE_HOME": "state",
}
SIGNS = ("Microsoft", "onnxruntime", ".ses", "deviceid")


def fresh_homes(place: Path) -> dict[str, str]:
    """Create an empty directory for each variable that names a directory of a program's files."""
    for name in HOMES.values():
        (place / name).mkdir()
        (place / name).chmod(0o777)
    return {variable: str(place / name) for variable, name in HOMES.items()}


@contextmanager
def serving_under(place: Path, tracer: list[str], **settings: str) -> Iterator[tuple[Command, dict[str, str]]]:
    """Start ``carrel serve`` with new home directories, below a tracer if one is requested."""
    homes = fresh_homes(place)
    work = place / "work"
    work.mkdir()
    work.chmod(0o711)
    log = place / "log"
    with log.open("w") as stderr:
        process = subprocess.Popen(
            [*tracer, sys.executable, "-m", "app.cli", "serve", "--port", "0"],
            cwd=work,
            env={**environment({"CARREL_PARSER_PROCESSES": "1", **settings}), **homes},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            start_new_session=True,
        )
    with process:
        command = Command(process, log)
        try:
            yield command, homes
        finally:
            _end(process, traced=bool(tracer))


def _end(process: subprocess.Popen[str], *, traced: bool) -> None:
    """Stop the service; a tracer ends with it."""
    for pid in _children(process.pid) if traced else [process.pid]:
        os.kill(pid, signal.SIGTERM)
    try:
        process.wait(HANG_SECONDS)
    finally:
        process.kill()


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def use(command: Command, homes: dict[str, str]) -> None:
    """Ingest a text and a file, and search with the embedded model."""
    command.read_screen()
    assert LAST_LINE in command.screen, command.log.read_text()
    headers = {"Authorization": f"Bearer {credentials(homes)}"}
    with httpx2.Client(base_url=command.url, headers=headers, timeout=90) as client:
        with (Path(__file__).parents[1] / "samples/two_columns.pdf").open("rb") as file:
            made = client.post(DOCUMENTS, params={"wait": 60}, files={"file": file}).raise_for_status().json()
        assert made["status"] == "ready", made
        reply = client.post("/v1/knowledge-bases/default/search", json={"query": "columns"}).raise_for_status().json()
        assert reply["results"][0]["scores"]["dense"] is not None
        assert client.get("/docs").is_success


def credentials(homes: dict[str, str]) -> str:
    kept = Path(homes["HOME"]).parent / "work/.carrel/credentials.json"
    return str(json.loads(kept.read_text())["api_key"])


def assert_nothing_left(place: Path, homes: dict[str, str], found: Observed) -> None:
    """Check the files that existed at any moment, and the files that exist afterwards."""
    temporary = Path(homes["TMPDIR"])
    seen = {Path(name).relative_to(place) for name in found.files}
    strange = {
        str(path)
        for path in seen
        if path.parts[0] in HOMES.values()
        and len(path.parts) > 1
        and not (path.parts[0] == temporary.name and OWN_TEMPORARY.match(path.parts[1]))
    }
    assert strange == set()
    left = {str(path) for name in HOMES.values() for path in (place / name).rglob("*")}
    assert {name for name in left if not OWN_TEMPORARY.match(Path(name).relative_to(temporary).parts[0])} == set()
    assert {path.name for path in (place / "work").iterdir()} == {".carrel"}
    own = [str(path) for path in (place / "work/.carrel").rglob("*")]
    assert [name for name in own if any(sign in name for sign in SIGNS)] == []


@pytest.mark.capability("model-local")
def test_serve_with_embedded_model_contacts_no_host_and_leaves_no_file(place: Path) -> None:
    with serving_under(place, []) as (command, homes), observed(command.process.pid, place) as found:
        use(command, homes)
        assert len(found.processes) > 3
        assert found.listening
        wait_until(lambda: len(found.remotes) > 0)  # a connection to the database proves that the observer sees sockets
    assert found.strangers() == set()
    assert_nothing_left(place, homes, found)


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed; the test above needs none")
def test_serve_under_strace_connects_to_its_own_ports_only(place: Path) -> None:
    log = place / "trace"
    tracer = ["strace", "-f", "-qq", "--seccomp-bpf", "-e", "trace=connect,sendto,sendmsg,sendmmsg", "-o", str(log)]
    with serving_under(place, tracer) as (command, homes), observed(command.process.pid) as found:
        use(command, homes)
    contacted = traced(log)
    assert contacted
    assert {one for one in contacted if not one[0].startswith("127.") or one[1] not in found.listening} == set()


def test_serve_with_endpoint_contacts_only_that_endpoint(place: Path, endpoint: EmbeddingServer) -> None:
    port = httpx2.URL(endpoint.base_url).port
    with (
        serving_under(place, [], **embedding_settings(endpoint)) as (command, homes),
        observed(command.process.pid, place) as found,
    ):
        use(command, homes)
        wait_until(lambda: ("tcp", "127.0.0.1", port) in found.remotes)
    assert found.strangers() == {("tcp", "127.0.0.1", port)}
    assert_nothing_left(place, homes, found)


def test_processes_that_import_app_have_telemetry_off() -> None:
    """A plugin's module is included: it imports the runtime after ``app``, or below a process that imports ``app``."""
    assert os.environ["ORT_DISABLE_TELEMETRY"] == "1"
    asked = {**os.environ, "ORT_DISABLE_TELEMETRY": "0"}
    show = "import app, os, subprocess, sys; sys.exit(subprocess.call(['printenv', 'ORT_DISABLE_TELEMETRY']))"
    done = subprocess.run(
        [sys.executable, "-c", show], env=asked, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "1\n"


def test_only_inference_package_imports_onnx_runtime() -> None:
    """Its reports are turned off by the package, which the configuration of the tests imports first."""
    root = Path(app.__file__).parents[1]
    importing = re.compile(r"^\s*(?:import|from)\s+onnxruntime\b", re.MULTILINE)
    found = [
        path.relative_to(root).as_posix()
        for folder in ("app", "carrel", "benchmarks", "clients", "scripts", "migrations")
        for path in (root / folder).rglob("*.py")
        if importing.search(path.read_text())
    ]
    assert "app/inference/onnx_session.py" in found
    # The package of the benchmarks imports `app` first.
    assert all(path.startswith(("app/inference/", "benchmarks/")) for path in found)


def test_models_pull_with_existing_weights_contacts_no_host(place: Path) -> None:
    homes = fresh_homes(place)
    target = Path(app.__file__).parents[1] / "models"
    done = run(place, "models", "pull", "--target", str(target), **homes)
    assert done.returncode == 0, done.stderr
    assert [path for name in HOMES.values() for path in (place / name).rglob("*")] == []
