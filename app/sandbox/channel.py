"""Connection of a sandboxed program to the service: requests with descriptors on standard input, replies on a pipe."""

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

MAX_DESCRIPTORS = 5
_READ_BYTES = 64 * 1024


class Channel:
    """Connection of a sandboxed program to the service: it receives requests and sends replies.

    The program creates the channel before anything else, because the channel takes over standard input and output.
    """

    def __init__(self) -> None:
        self._replies = FileIO(os.dup(1), "w")
        os.dup2(2, 1)  # the output of libraries that print must not end up among the replies
        self._requests = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fileno=0)
        self._buffer = bytearray()
        self._descriptors: list[int] = []
        handshake = json.loads(self._read_line() or b"null")
        self._parent: int = handshake["parent"]
        self.setup: dict[str, Any] = handshake["setup"]
        die_with_parent(self._parent)

    def confine(self, limits: SandboxLimits) -> ConfinedProcess:
        """Confine this process permanently and report the measures in force to the service.

        Import all modules first: the confined process can read only the files that the limits allow.

        Args:
            limits: Limits of the process.

        Returns:
            The confined process, with the measures that are in force.
        """
        confined = confine(limits, parent=self._parent)
        self.send({"confinement": asdict(confined.confinement)})
        return confined

    def iter_requests(self) -> Iterator[tuple[dict[str, Any], list[int]]]:
        """Yield the requests until the parent process closes the connection or ends.

        Yields:
            A request, and the file descriptors that came with it. The descriptors are closed before the next request.
        """
        while (line := self._read_line()) is not None:
            descriptors, self._descriptors = self._descriptors, []
            try:
                yield json.loads(line), descriptors
            finally:
                for descriptor in descriptors:
                    with suppress(OSError):
                        os.close(descriptor)

    def send(self, message: dict[str, Any]) -> None:
        """Send one reply as a line of JSON."""
        self.write(json.dumps(message, separators=(",", ":")).encode("ascii") + b"\n")

    def write(self, line: bytes) -> None:
        """Send one encoded line, which includes its newline.

        The loop is needed because one write to a pipe may send only a part of the line.
        """
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
