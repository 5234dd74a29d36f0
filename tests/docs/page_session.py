"""Execution of a page's blocks: a shell and a Python process for each page, in a directory with sample documents."""

import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import httpx2

from harness.processes import RunningService, build_environment

ROOT = Path(__file__).parents[2]
BLOCK_TIMEOUT_SECONDS = 90.0
START_TIMEOUT_SECONDS = 90.0
# The address that pages show. Port 8000 may be in use on the machine of the test.
SHOWN_ADDRESSES = ("127.0.0.1:8000", "localhost:8000")
KEY_PLACEHOLDER = "carrel_…"
# The port that pages show for a program of the reader.
SHOWN_PORT = "8099"
# All blocks run in one shell; a block's status is that of the last command that failed.
_SHELL_STEP = "failed=0; . {} >{} 2>&1 </dev/null; echo $failed >{}; mv {} {}\n"
_PYTHON_LOOP = """
import contextlib, pathlib, sys, traceback
namespace = {"__name__": "__main__"}
for line in sys.stdin:
    script = pathlib.Path(line.strip())
    status = 0
    with script.with_suffix(".out").open("w") as out, contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            exec(compile(script.read_text(), script.name, "exec"), namespace)
        except BaseException:
            traceback.print_exc()
            status = 1
    script.with_suffix(".tmp").write_text(str(status))
    script.with_suffix(".tmp").rename(script.with_suffix(".status"))
"""

_COMMANDS = {"bash": ["bash", "--noprofile", "--norc"], "python": [sys.executable, "-u", "-c", _PYTHON_LOOP]}


@dataclass
class PageSession:
    """The processes and the directory of one page.

    Attributes:
        directory: Current directory of all blocks, with ``samples/``, ``examples/`` and ``.carrel/credentials.json``.
        url: Address of the running service.
        key: Admin key of the page's tenant.
        port: Free port for a program that the page starts.
    """

    directory: Path
    url: str
    key: str
    operator_key: str
    service_log: Path
    port: str = field(default_factory=lambda: str(find_free_port()))
    _number: int = 0
    _processes: dict[str, "subprocess.Popen[str]"] = field(default_factory=dict)
    _service: "subprocess.Popen[bytes] | None" = None

    @classmethod
    def open(cls, directory: Path, service: RunningService, name: str) -> Self:
        """Create a tenant of the shared service for a page, and the directory that ``carrel serve`` would leave."""
        operator_key = (service.data_dir / "operator-key").read_text().strip()
        headers = {"Authorization": f"Bearer {operator_key}"}
        created = httpx2.post(f"{service.url}/v1/tenants", json={"name": name}, headers=headers, timeout=30)
        created.raise_for_status()
        key = created.json()["api_key"]["key"]
        shutil.copytree(ROOT / "samples", directory / "samples")
        shutil.copytree(ROOT / "docs/examples", directory / "examples", ignore=shutil.ignore_patterns("__pycache__"))
        data_dir = directory / ".carrel"
        data_dir.mkdir(mode=0o711)
        (data_dir / "credentials.json").write_text(json.dumps({"url": service.url, "api_key": key}))
        (data_dir / "operator-key").write_text(operator_key)
        (directory / ".curlrc").write_text("silent\nshow-error\n")
        return cls(directory, service.url, key, operator_key, service.data_dir.parent / "serve.log")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for process in self._processes.values():
            _end_group(process)
        if self._service is not None:
            self._service.send_signal(signal.SIGTERM)
            self._service.wait(60)

    def run(self, language: str, text: str) -> tuple[int, str]:
        """Run a block in the page's shell or Python process and return its status and its output.

        Raises:
            TimeoutError: The block does not end.
        """
        python = language == "python"
        self._number += 1
        script = self.directory / f".block-{self._number}.{'py' if python else 'sh'}"
        script.write_text(self._fill_in(text))
        status, out = script.with_suffix(".status"), script.with_suffix(".out")
        process = self._start_process("python" if python else "bash")
        assert process.stdin is not None
        if python:
            process.stdin.write(f"{script}\n")
        else:
            paths = (script, out, f"{status}-new", f"{status}-new", status)
            process.stdin.write(_SHELL_STEP.format(*(shlex.quote(str(path)) for path in paths)))
        process.stdin.flush()
        end = time.monotonic() + BLOCK_TIMEOUT_SECONDS
        while not status.exists():
            if process.poll() is not None or time.monotonic() > end:
                printed = out.read_text() if out.exists() else ""
                raise TimeoutError(f"the block does not end, or ends its shell:\n{text}\nIt printed:\n{printed}")
            time.sleep(0.02)
        return int(status.read_text()), self._hide(out.read_text("utf-8", errors="replace"))

    def serve(self, text: str) -> None:
        """Start the service that a block starts; plain ``carrel serve`` is the shared service."""
        if text.strip() == "carrel serve":
            return
        text = text.replace(SHOWN_PORT, self.port)
        credentials = self.directory / ".carrel" / "credentials.json"
        shutil.rmtree(credentials.parent)
        self.service_log = self.directory / ".serve.log"
        command = f"exec {text.strip()}" if "\n" not in text.strip() and "=" not in text.split()[0] else text.strip()
        with self.service_log.open("wb") as log:
            self._service = subprocess.Popen(
                ["bash", "-c", f"{command} --port 0"],
                cwd=self.directory,
                env=self._build_environment(),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        end = time.monotonic() + START_TIMEOUT_SECONDS
        while not _is_ready(credentials):
            if self._service.poll() is not None or time.monotonic() > end:
                raise TimeoutError(f"the service did not start:\n{self.service_log.read_text()[-3000:]}")
            time.sleep(0.1)
        found = json.loads(credentials.read_text())
        self.url, self.key = found["url"], found["api_key"]

    def write_file(self, name: str, text: str) -> None:
        """Write a block to a file below the page's directory."""
        path = (self.directory / name).resolve()
        assert path.is_relative_to(self.directory.resolve()), name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self._fill_in(text))

    def read_service_log(self) -> str:
        """Return the output of ``carrel serve``."""
        return self._hide(self.service_log.read_text())

    def _start_process(self, kind: str) -> "subprocess.Popen[str]":
        if kind not in self._processes:
            process = subprocess.Popen(
                _COMMANDS[kind],
                stdin=subprocess.PIPE,
                text=True,
                cwd=self.directory,
                env=self._build_environment(),
                start_new_session=True,
            )
            self._processes[kind] = process
            if kind == "bash":
                assert process.stdin is not None
                process.stdin.write("set -o pipefail; trap 'failed=$?' ERR\n")
        return self._processes[kind]

    def _build_environment(self) -> dict[str, str]:
        terminal = {"COLUMNS": "120", "TERM": "dumb", "LC_ALL": "C.UTF-8"}
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        return {**build_environment(), **terminal, "PATH": path, "HOME": str(self.directory)}

    def _fill_in(self, text: str) -> str:
        address = self.url.removeprefix("http://")
        for shown in SHOWN_ADDRESSES:
            text = text.replace(shown, address)
        return text.replace(KEY_PLACEHOLDER, self.key).replace(SHOWN_PORT, self.port)

    def _hide(self, text: str) -> str:
        text = text.replace(self.url.removeprefix("http://"), SHOWN_ADDRESSES[0])
        text = text.replace(f"127.0.0.1:{self.port}", f"127.0.0.1:{SHOWN_PORT}")
        return text.replace(self.key, KEY_PLACEHOLDER).replace(f"{self.directory}/", "")


def find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def _is_ready(credentials: Path) -> bool:
    try:
        url = json.loads(credentials.read_text())["url"]
        return bool(httpx2.get(f"{url}/readyz", timeout=2).is_success)
    except (OSError, ValueError, httpx2.TransportError):
        return False


def _end_group(process: "subprocess.Popen[str]") -> None:
    """End a process and its child processes."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(10)
    except ProcessLookupError:
        process.wait(10)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
