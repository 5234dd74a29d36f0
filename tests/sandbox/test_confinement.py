"""Confinement of a parser under an attacker's control: each attempt in a real pool, as root and as an ordinary user."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.attempts import SECRET

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other platforms have no confinement by the kernel")

KILLED = "ParserCrashed"
REFUSED = {
    # Reading
    "read DIR/credentials.json": "EACCES",
    "read DIR/original": "EACCES",
    "read /etc/passwd": "EACCES",
    "read /proc/PARENT/environ": "EACCES",
    "read /proc/PARENT/mem": "EACCES",
    "read /proc/PARENT/maps": "EACCES",
    "read /proc/self/root/etc/passwd": "EACCES",
    "listing DIR": "EACCES",
    "listing /": "EACCES",
    "listing /proc": "EACCES",
    "read_memory": KILLED,
    "attach": KILLED,
    "raw pidfd_open PARENT 0": "EPERM",
    "raw pidfd_getfd 0 0 0": KILLED,
    "raw openat2 -100 0 0 0": "ENOSYS",
    "raw inotify_init1 0": "EPERM",
    # The network
    "connect PORT": "EPERM",
    "abstract NAME": "EPERM",
    "open_socket 1 1": "EPERM",
    "open_socket 2 2": "EPERM",
    "open_socket 10 1": "EPERM",
    "open_socket 16 3": "EPERM",
    "raw io_uring_setup 1 0": KILLED,
    # Other programs and processes
    "fork_exec": "EPERM",
    "fork": "EPERM",
    "raw clone 17 0 0 0 0": "EPERM",
    "raw clone 0x10000011 0 0 0 0": "EPERM",
    "execute /bin/true": "EPERM",
    "memfd_exec": "EPERM",
    "signal_parent 0": "EPERM",
    "signal_parent 19": "EPERM",
    "raw tgkill PARENT PARENT 0": "EPERM",
    "limit_parent": "EPERM",
    "slow_parent": "EPERM",
    "own_signals": "EPERM",
    "raw shmget 0 4096 0x1ff": "EPERM",
    # Files
    "overwrite DIR/original": "EPERM",
    "open_for_writing DIR/original": "EPERM",
    "open_for_writing /proc/self/fd/0": "EPERM",
    "create DIR/new": "EPERM",
    "create /tmp/carrel-hostile": "EPERM",
    "change unlink DIR/original": "EPERM",
    "change rename DIR/original DIR/moved": "EPERM",
    "change mkdir - DIR/made": "EPERM",
    "change symlink DIR/original DIR/made": "EPERM",
    "change link DIR/original DIR/made": "EPERM",
    "change chmod DIR/original": "EPERM",
    "change chown DIR/original": "EPERM",
    "change truncate DIR/original": "EPERM",
    "change utime DIR/original": "EPERM",
    "change mkfifo - DIR/made": "EPERM",
    "change setxattr DIR/original": "EPERM",
    "raw fchmodat2 -100 0 0 0": "EPERM",
    # Rights
    "be_root": "EPERM",
    "raise_limit": "ValueError",
    "outlive": "EPERM",
    "raw capset 0 0": "EPERM",
    "raw personality 0x0040000": "EPERM",
    "raw seccomp 1 0 0": "EPERM",
    "raw unshare 0x10000000": KILLED,
    "raw mount 0 0 0 0 0": KILLED,
    "raw chroot 0": KILLED,
    "raw keyctl 0 -3 0": KILLED,
    "raw bpf 0 0 0": KILLED,
    "raw userfaultfd 0": KILLED,
    "raw perf_event_open 0 0 -1 -1 0": KILLED,
    "raw open_by_handle_at 0 0 0": KILLED,
    "other_numbers": KILLED if os.uname().machine == "x86_64" else "ENOSYS",
}
if os.uname().machine == "x86_64":
    REFUSED["other_architecture"] = KILLED
ALLOWED = {
    "thread": "done thread signal 1 2 3",
    "write_to_descriptors": "done /dev/null",
}


def run(surroundings: str, *attempts: str) -> Any:
    """Return the outcomes of attempts in a process with these surroundings, and the remaining files."""
    directory = Path(tempfile.mkdtemp(prefix="carrel-hostile-"))
    try:
        directory.chmod(0o711)
        command = [sys.executable, "-m", "tests.sandbox.attempts", surroundings, str(directory), *attempts]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
        assert answer.returncode == 0, answer.stderr[-2000:]
        return json.loads(answer.stdout)
    finally:
        shutil.rmtree(directory)


@pytest.fixture(scope="module", params=["root", "plain"])
def answer(request: pytest.FixtureRequest) -> Any:
    if os.geteuid() != 0:
        pytest.skip("only root can take on the other user")
    return request.param, run(request.param, *REFUSED, *ALLOWED, "who")


def test_hostile_parser_is_refused_everything(answer: Any) -> None:
    _, found = answer
    assert {name: found["outcomes"][name] for name in REFUSED} == REFUSED


def test_hostile_parser_may_do_what_libraries_need(answer: Any) -> None:
    _, found = answer
    assert {name: found["outcomes"][name] for name in ALLOWED} == ALLOWED


def test_hostile_parser_changes_no_file(answer: Any) -> None:
    _, found = answer
    assert found["files"] == {"credentials.json": SECRET, "original": SECRET}


def test_parser_has_no_rights_and_own_user_below_root(answer: Any) -> None:
    surroundings, found = answer
    who = dict(pair.split("=") for pair in found["outcomes"]["who"].removeprefix("done ").split(" "))
    assert {int(who[name], 16) for name in ("CapEff", "CapPrm", "CapAmb")} == {0}
    if surroundings == "root":
        assert int(who["Uid"]) == int(who["Gid"]) > 1_900_000_000
        assert who["Groups"] == ""
        assert int(who["CapBnd"], 16) == 0
        assert found["confinement"] == []
    else:
        assert found["confinement"] == ["user: the service does not run as root"]


def test_parser_below_root_without_filter_is_stopped_by_its_user() -> None:
    found = run(
        "unfiltered", "read DIR/original", "read /proc/PARENT/environ", "signal_parent 0", "fork", "create DIR/x"
    )
    assert found["outcomes"] == {
        "read DIR/original": "EACCES",
        "read /proc/PARENT/environ": "EACCES",
        "signal_parent 0": "EPERM",
        "fork": found["outcomes"]["fork"],
        "left behind": False,
        "create DIR/x": "EACCES",
    }
    assert found["outcomes"]["fork"].startswith("done")
    assert [reason.partition(":")[0] for reason in found["confinement"]] == ["landlock", "system call filter"]


def test_parser_of_plain_user_without_filter_leaves_nothing_behind() -> None:
    found = run("plain unfiltered", "thread", "read /proc/PARENT/environ", "read DIR/original", "fork")
    assert found["outcomes"] == {
        "thread": ALLOWED["thread"],
        "read /proc/PARENT/environ": "EACCES",
        "read DIR/original": f"done {SECRET}",  # the same user, and no kernel feature: security.md says so
        "fork": found["outcomes"]["fork"],
        "left behind": False,
    }
    assert found["outcomes"]["fork"].startswith("done")
    assert len(found["confinement"]) == 3


def test_parser_without_landlock_is_still_filtered() -> None:
    found = run("plain unlocked", "connect PORT", "fork", "create DIR/x", "thread")
    outcomes = {"connect PORT": "EPERM", "fork": "EPERM", "left behind": False, "create DIR/x": "EPERM"}
    assert found["outcomes"] == {**outcomes, "thread": ALLOWED["thread"]}
