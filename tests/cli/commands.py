"""``carrel`` commands, in this process and in separate ones, and observation of the processes that they leave."""

import json
import os
import pwd
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
from typer.testing import CliRunner

from app.cli import app

HANG_SECONDS = 180.0
REPOSITORY = Path(__file__).parents[2]
# Loads the code from the checkout in any directory.
COMMAND = [sys.executable, "-m", "app.cli"]
LAST_LINE = "Ctrl-C stops it."
WIDE = {"COLUMNS": "400", "TERM": "dumb", "CARREL_DATA_DIR": "/nowhere"}
SETTINGS = {"CARREL_WORKER_LEASE_TIMEOUT_SECONDS": "2", "CARREL_PARSER_PROCESSES": "1"}


def environment(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of this process with other settings of Carrel."""
    kept = {name: value for name, value in os.environ.items() if not name.upper().startswith("CARREL_")}
    return {**kept, "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'clients/python'}", **settings}


def run(directory: Path, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run a command that ends without a signal."""
    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=directory,
        env=environment(settings),
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )


def printed(*arguments: str, url: str, key: str, status: int = 0) -> Any:
    """Return the output of a client command, parsed with ``--json``; ``status`` is its expected exit status."""
    found = CliRunner().invoke(app, [*arguments, "--url", url, "--key", key], env=WIDE)
    assert found.exit_code == status, found.output
    if status and not found.stdout:
        return found.stderr
    return json.loads(found.stdout) if "--json" in arguments else found.stdout


@dataclass
class Command:
    """A command that runs until a signal; standard error is in ``log``."""

    process: subprocess.Popen[str]
    log: Path
    screen: str = ""

    @property
    def url(self) -> str:
        found = re.search(r"serving on (\S+)", self.screen)
        assert found is not None, self.screen + self.log.read_text()
        return found[1]

    @property
    def key(self) -> str:
        """API key of the first tenant, from the file that the screen names."""
        found = re.search(r"(/\S+/credentials\.json)", self.screen)
        assert found is not None, self.screen
        return str(json.loads(Path(found[1]).read_text())["api_key"])

    def client(self, key: str | None = None) -> httpx2.Client:
        return httpx2.Client(base_url=self.url, headers={"Authorization": f"Bearer {key or self.key}"}, timeout=90)

    def events(self, name: str) -> list[dict[str, Any]]:
        """Return the logged events with this name."""
        lines = [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]
        return [line for line in lines if line["event"] == name]

    def wait_for(self, event: str, *, count: int = 1) -> None:
        """Wait until the log has the event ``count`` times."""
        wait_until(lambda: len(self.events(event)) >= count or self.process.poll() is not None)
        assert len(self.events(event)) >= count, self.log.read_text()

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and wait for the exit status."""
        self.process.send_signal(number)
        return self.process.wait(HANG_SECONDS)

    def read_screen(self) -> None:
        """Read the output of serve until its last line or its end."""
        assert self.process.stdout is not None
        descriptor = self.process.stdout.fileno()
        end = time.monotonic() + HANG_SECONDS
        while LAST_LINE not in self.screen and time.monotonic() < end:
            if select.select([descriptor], [], [], 1)[0]:
                piece = os.read(descriptor, 65536)
                if not piece:
                    break
                self.screen += piece.decode()


@contextmanager
def started(
    directory: Path,
    *arguments: str,
    user: str | None = None,
    stdout: Any = subprocess.PIPE,
    program: Sequence[str] = COMMAND,
    **settings: str,
) -> Iterator[Command]:
    """Start a command in a separate session. At the end, check that no process of the command remains."""
    log = directory / f"log-{time.monotonic_ns()}"
    account = pwd.getpwnam(user) if user else None
    with log.open("w") as stderr:
        process = subprocess.Popen(
            [*program, *arguments],
            cwd=directory,
            env=environment({**SETTINGS, **({"HOME": str(directory)} if user else {}), **settings}),
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            text=True,
            start_new_session=True,
            user=account.pw_uid if account else None,
            group=account.pw_gid if account else None,
            extra_groups=[] if account else None,
        )
    with process:
        command = Command(process, log)
        try:
            yield command
        finally:
            # An embedded Postgres stops shortly after its service is killed, and removes files until then.
            below = descendants(process.pid)
            process.kill()
            process.wait(HANG_SECONDS)
            wait_until_ended(below)


@contextmanager
def serving(
    directory: Path, *arguments: str, user: str | None = None, program: Sequence[str] = COMMAND, **settings: str
) -> Iterator[Command]:
    """Run ``carrel serve`` on a free port, and wait until it answers."""
    with started(directory, "serve", "--port", "0", *arguments, user=user, program=program, **settings) as command:
        command.read_screen()
        assert LAST_LINE in command.screen, command.log.read_text()
        yield command


def wait_until(condition: Any) -> None:
    end = time.monotonic() + HANG_SECONDS
    while not condition():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.02)


def stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the state on; none if the process has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [] if fields[0] in "ZX" else fields


def descendants(pid: int) -> set[int]:
    """Return all processes below a process."""
    parents = {int(path.name): stat(int(path.name)) for path in Path("/proc").iterdir() if path.name.isdigit()}
    found: set[int] = set()
    layer = {pid}
    while layer := {child for child, fields in parents.items() if fields and int(fields[1]) in layer}:
        found |= layer
    return found


def worker_of(pid: int) -> int:
    """Return the worker process of a serve process."""
    [found] = [
        child
        for child in descendants(pid)
        if stat(child) and int(stat(child)[1]) == pid and b"--attached" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]
    return found


def wait_until_ended(pids: set[int]) -> None:
    wait_until(lambda: not any(stat(pid) for pid in pids))
