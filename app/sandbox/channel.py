"""The sandboxed side of the conversation: requests with descriptors on standard input, replies on a pipe."""

import array
import json
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from io import FileIO
from typing import Any

from app.sandbox.confinement import ConfinedProcess, SandboxLimits, confine, die_with_parent

MAX_DESCRIPTORS = 4
_READ_BYTES = 64 * 1024


class Channel:
    """What a sandboxed program hears and says. Open it first: it takes standard input and output for itself."""

    def __init__(self) -> None:
        self._replies = FileIO(os.dup(1), "w")
        os.dup2(2, 1)  # libraries that print must not break the conversation
        self._requests = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fileno=0)
        self._buffer = bytearray()
        self._descriptors: list[int] = []
        handshake = json.loads(self._read_line() or b"null")
        self._parent: int = handshake["parent"]
        self.setup: dict[str, Any] = handshake["setup"]
        die_with_parent(self._parent)

    def confine(self, limits: SandboxLimits) -> ConfinedProcess:
        """Confine this process for good, and report the measures in force. Import everything else before."""
        confined = confine(limits, parent=self._parent)
        self.send({"confinement": asdict(confined.confinement)})
        return confined

    def iter_requests(self) -> Iterator[tuple[dict[str, Any], list[int]]]:
        """Yield each request with its descriptors, which are closed before the next one; ends with the parent."""
        while (line := self._read_line()) is not None:
            descriptors, self._descriptors = self._descriptors, []
            try:
                yield json.loads(line), descriptors
            finally:
                for descriptor in descriptors:
                    with suppress(OSError):
                        os.close(descriptor)

    def send(self, message: dict[str, Any]) -> None:
        """Send one reply."""
        self.write(json.dumps(message, separators=(",", ":")).encode("ascii") + b"\n")

    def write(self, line: bytes) -> None:
        """Send one encoded line, its end included. A raw write to a pipe may be short."""
        view = memoryview(line)
        while view:
            view = view[self._replies.write(view) :]

    def _read_line(self) -> bytes | None:
        while (end := self._buffer.find(b"\n")) < 0:
            piece = self._receive()
            if not piece:
                return None
            self._buffer += piece
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line

    def _receive(self) -> bytes:
        size = array.array("i").itemsize * MAX_DESCRIPTORS
        flags = socket.MSG_CMSG_CLOEXEC if sys.platform == "linux" else 0
        piece, ancillary, _, _ = self._requests.recvmsg(_READ_BYTES, socket.CMSG_SPACE(size), flags)
        for level, kind, data in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                received = array.array("i")
                received.frombytes(data[: len(data) - len(data) % received.itemsize])
                self._descriptors.extend(received)
        return piece
