"""Owner processes: separate programs that start an embedded Postgres, report its state and wait for their end."""

import json
import os
import pwd
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[2]
HANG_SECONDS = 60.0

PROGRAM = """
import json, sys
from pathlib import Path
sys.path[:0] = json.loads(sys.argv[1])
from app.embedded_postgres import EmbeddedPostgres
from app.errors import AppError
server = EmbeddedPostgres(Path(sys.argv[2]))
try:
    server.start()
except AppError as error:
    print(json.dumps({"code": error.code, "message": error.message}), flush=True)
else:
    told = {"pid": server.pid, "location": str(server.directory), "relocated": server.is_relocated}
    told["urls"] = [server.ensure_database().owner, server.build_url("postgres")]
    print(json.dumps(told), flush=True)
    sys.stdin.read()
    server.stop()
"""


@dataclass
class OwnerProcess:
    """Process that owns a data directory, and its report of the start."""

    process: subprocess.Popen[str]
    told: dict[str, Any]


@contextmanager
def owner(
    data_dir: Path,
    *,
    path: tuple[Path, ...] = (),
    bare: bool = False,
    python: str = sys.executable,
    user: str | None = None,
) -> Iterator[OwnerProcess]:
    """Run an owner; ``path`` goes before the packages, ``bare`` leaves the installed ones out."""
    search = [str(entry) for entry in (*path, REPOSITORY)]
    options = ["-W", "error", *(["-I", "-S"] if bare else [])]
    command = [python, *options, "-c", PROGRAM, json.dumps(search), str(data_dir)]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd="/",
        env={**os.environ, "CARREL_SECRET_OF_THE_SERVICE": "not for Postgres", "PGDATA": "/nonexistent"},
        user=user,
        group=None if user is None else pwd.getpwnam(user).pw_gid,
        extra_groups=None if user is None else [],
    )
    with process:
        try:
            assert process.stdout is not None
            yield OwnerProcess(process, json.loads(process.stdout.readline() or '{"code": "said nothing"}'))
            assert process.stdin is not None
            process.stdin.close()
            process.wait(HANG_SECONDS)
        finally:
            process.kill()


def wait_until_ended(pid: int) -> None:
    """Wait until a process has ended; a zombie has ended."""
    end = time.monotonic() + HANG_SECONDS
    while alive(pid):
        assert time.monotonic() < end, f"process {pid} still lives"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    """Return whether the process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except FileNotFoundError:
        return False
