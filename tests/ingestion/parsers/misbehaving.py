"""Parser that does what a hostile file might make a real one do; the file's text names the action."""

import ctypes
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from carrel.plugins.parsers import Block, BlockKind, ParsedDocument, ParseOptions, ServiceWarning


def parse(path: Path, options: ParseOptions) -> ParsedDocument:
    command, _, argument = path.read_text().partition(" ")
    if command == "warn":
        return warn()
    actions: dict[str, Callable[[str], str]] = {
        "loop": loop,
        "sleep": partial(sleep, options),
        "eat": eat,
        "grow": grow,
        "crash": crash,
        "killed": killed,
        "giant": giant,
        "raw": raw,
        "attempt": attempt,
        "noise": noise,
        "environment": environment,
        "fail": fail,
        "process": process,
    }
    return ParsedDocument([Block(BlockKind.PARAGRAPH, actions[command](argument))])


def warn() -> ParsedDocument:
    """Return each kind of warning that a plugin may return: a plain string, a separate code, and a malformed code."""
    warnings: list[Any] = [
        "A plain string.",
        ServiceWarning("own_code", "Its own."),
        ServiceWarning("No code", "Else."),
    ]
    return ParsedDocument([Block(BlockKind.PARAGRAPH, "text")], warnings=warnings)


def loop(_: str) -> str:
    while True:
        pass


def sleep(options: ParseOptions, argument: str) -> str:
    if argument:
        time.sleep(1)  # more frequent reports are left out
        options.on_progress(1, 2)
    time.sleep(3600)
    return "awake"


def eat(_: str) -> str:
    return str(sum(len(piece) for piece in [bytearray(1 << 26) for _ in range(1000)]))


_HOARD: list[bytes] = []


def grow(argument: str) -> str:
    _HOARD.append(b"x" * (int(argument) << 20))
    return str(os.getpid())


def crash(_: str) -> str:
    ctypes.string_at(0)
    return "alive"


def killed(_: str) -> str:
    os.kill(os.getpid(), 9)
    return "alive"


def giant(argument: str) -> str:
    return "x" * int(argument)


def raw(argument: str) -> str:
    """Write to the reply pipe directly, like a parser that an attacker controls."""
    pipe = min(fd for fd in range(3, 64) if Path(f"/proc/self/fd/{fd}").exists() and _is_pipe(fd))
    os.write(pipe, argument.encode() + b"\n")
    return "said"


def _is_pipe(fd: int) -> bool:
    return str(Path(f"/proc/self/fd/{fd}").readlink()).startswith("pipe:")


def attempt(argument: str) -> str:
    """Return the name of the exception that an action raises."""
    actions: dict[str, Callable[[], object]] = {
        "connect": lambda: socket.create_connection(("127.0.0.1", 9)),
        "resolve": lambda: socket.getaddrinfo("localhost", 80),
        "run": lambda: subprocess.run(["true"], check=True),
        "fork": os.fork,
        "write": lambda: Path(f"/tmp/carrel-parser-{os.getpid()}").write_bytes(b"x"),
        "nothing": lambda: None,
    }
    try:
        actions[argument]()
    except Exception as exc:
        return type(exc).__name__
    return "no exception"


def noise(_: str) -> str:
    print("library chatter")
    os.write(1, b"more chatter\n")
    sys.stdout.flush()
    return "quiet"


def environment(_: str) -> str:
    return " ".join(sorted(os.environ))


def fail(_: str) -> str:
    raise LookupError("library trips")


def process(_: str) -> str:
    return str(os.getpid())
