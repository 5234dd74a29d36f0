"""Probe of a machine's confinement: detection, report and display."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from app.sandbox.confinement import Confinement
from app.sandbox.process import find_confinement
from tests.sandbox.surroundings import PLAIN_UID, become_plain_user

GUARD = 60


async def test_confinement_of_linux_is_full() -> None:
    found = await find_confinement()
    assert found.level == ("full" if sys.platform == "linux" else "none")
    assert found.system_call_filter


@pytest.mark.parametrize(
    ("confinement", "level", "words"),
    [
        (Confinement(own_user=True, system_call_filter=True, landlock=0), "full", "own user, system call filter"),
        (Confinement(own_user=False, system_call_filter=True, landlock=7), "full", "system call filter, Landlock 7"),
        (Confinement(own_user=False, system_call_filter=True, landlock=0), "partial", "system call filter"),
        (Confinement(own_user=True, system_call_filter=False, landlock=0), "partial", "own user"),
        (Confinement(own_user=False, system_call_filter=False, landlock=0, missing=("landlock: none",)), "none",
         "nothing; missing landlock: none"),
    ],
)  # fmt: skip
def test_level_follows_from_the_measures(confinement: Confinement, level: str, words: str) -> None:
    assert confinement.level == level
    assert confinement.describe() == f"in force: {words}"


@pytest.mark.parametrize("message", [None, [], {}, {"own_user": 1, "system_call_filter": 1, "landlock": "x"}])
def test_invalid_report_is_refused(message: object) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        Confinement.from_message(message)


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="root alone can take on another user")
@pytest.mark.parametrize("command", [["worker"], ["serve", "--api-only", "--port", "0"]])
def test_service_shows_memory_and_environment_to_no_equal_user(command: list[str], tmp_path: Path) -> None:
    """The kernel gives these files to root on request of the process; a new program's files are its user's own."""
    os.chown(tmp_path, PLAIN_UID, PLAIN_UID)
    with socket.create_server(("127.0.0.1", 0)) as database:  # a database that never answers, so that the process waits
        url = f"postgresql://app:app@127.0.0.1:{database.getsockname()[1]}/carrel"
        process = subprocess.Popen(
            [sys.executable, "-m", "app.cli", *command],
            env={**os.environ, "CARREL_DATABASE_URL": url, "CARREL_DATA_DIR": str(tmp_path), "HOME": "/"},
            preexec_fn=become_plain_user,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            assert _owner(process.pid, "environ") == PLAIN_UID
            end = time.monotonic() + GUARD
            while _owner(process.pid, "environ") != 0 and process.poll() is None and time.monotonic() < end:
                time.sleep(0.05)
            assert {_owner(process.pid, name) for name in ("environ", "mem", "maps", "fd")} == {0}
            assert f"Uid:\t{PLAIN_UID}" in Path(f"/proc/{process.pid}/status").read_text()
        finally:
            process.kill()
            process.wait()


def _owner(pid: int, name: str) -> int:
    return Path(f"/proc/{pid}/{name}").stat().st_uid
