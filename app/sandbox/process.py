"""Control of a sandboxed process: start it, exchange requests and replies, and kill it with its descendants."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Self

from app.errors import UnavailableError
from app.sandbox.confinement import Confinement
from app.sandbox.kernel import is_linux
from app.sandbox.orphan_processes import adopt_orphans, kill_orphans

START_TIMEOUT_SECONDS = 60
_READ_BYTES = 64 * 1024


_active_pids: set[int] = set()
"""Process ids of the sandboxed processes that this process has started and not killed."""


class SandboxUnavailable(UnavailableError):
    """A sandboxed process cannot be started. Try again later."""

    code = "sandbox_unavailable"


class ReplyTooLong(ValueError):
    """A reply line of a sandboxed process is longer than the caller allows."""


class SandboxedProcess:
    """A running sandboxed process, with a buffer of the reply bytes that the caller has not read."""

    def __init__(self, process: asyncio.subprocess.Process, requests: socket.socket) -> None:
        self.process = process
        self.request_count = 0
        """Number of answered requests. The caller of this class counts them."""
        self.confinement = Confinement(own_user=False, system_call_filter=False, landlock=0)
        self._requests = requests
        _active_pids.add(process.pid)
        self._buffer = bytearray()

    @classmethod
    async def start(cls, module: str, setup: Mapping[str, Any]) -> Self:
        """Start ``module``, which opens a ``Channel``, and wait until it is confined.

        Args:
            module: Full name of the program's module. ``python -I -m`` runs it in the directory ``/``.
            setup: JSON values that the program reads as ``Channel.setup``. They must not contain secrets.

        Returns:
            The confined process.

        Raises:
            SandboxUnavailable: The process does not report its confinement within 60 seconds, or ends before.
        """
        process = await cls._spawn(module)
        try:
            async with asyncio.timeout(START_TIMEOUT_SECONDS):
                handshake = {"parent": os.getpid(), "setup": setup}
                await process.send(json.dumps(handshake, separators=(",", ":")).encode("ascii") + b"\n")
                line = await process.read_line(_READ_BYTES)
            process.confinement = Confinement.from_message(json.loads(line or b"null")["confinement"])
        except (TimeoutError, ValueError, TypeError, KeyError) as exc:
            await process.kill()
            raise SandboxUnavailable from exc
        except BaseException:
            await process.kill()
            raise
        if not process.confinement.system_call_filter:
            adopt_orphans()
        return process

    @classmethod
    async def _spawn(cls, module: str) -> Self:
        parent_end, child_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            parent_end.setblocking(False)
            with child_end:
                process = await asyncio.create_subprocess_exec(
                    sys.executable, "-I", "-m", module,
                    stdin=child_end.fileno(),
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.DEVNULL,
                    cwd="/",
                    start_new_session=True,
                    env={"PATH": os.defpath, "LANG": "C.UTF-8", "MALLOC_ARENA_MAX": "2"},
                )  # fmt: skip
            parent_end.shutdown(socket.SHUT_RD)  # replies come through the pipe
        except BaseException:
            parent_end.close()
            raise
        return cls(process, parent_end)

    async def send(self, line: bytes, descriptors: Sequence[int] = ()) -> None:
        """Send one request to the process.

        If the process has ended, nothing is raised here: the next ``read_line`` returns None.

        Args:
            line: Encoded request, with its newline.
            descriptors: Open file descriptors. The process receives copies of them.
        """
        loop = asyncio.get_running_loop()
        view = memoryview(line)
        with contextlib.suppress(ConnectionError):
            if descriptors:
                view = view[await self._send_with_descriptors(view, descriptors) :]
            if view:
                await loop.sock_sendall(self._requests, view)

    async def _send_with_descriptors(self, view: memoryview, descriptors: Sequence[int]) -> int:
        while True:
            try:
                return socket.send_fds(self._requests, [view], list(descriptors))
            except BlockingIOError:  # the process has not read the previous request
                await self._wait_until_writable()

    async def _wait_until_writable(self) -> None:
        loop = asyncio.get_running_loop()
        writable = asyncio.Event()
        loop.add_writer(self._requests.fileno(), writable.set)
        try:
            await writable.wait()
        finally:
            loop.remove_writer(self._requests.fileno())

    async def read_line(self, max_bytes: int) -> bytes | None:
        """Return the next reply line.

        Args:
            max_bytes: Maximum length of the line.

        Returns:
            The line without its newline; None if the process has ended.

        Raises:
            ReplyTooLong: The line is longer than ``max_bytes``.
        """
        assert self.process.stdout is not None
        scanned_bytes = 0
        while (end := self._buffer.find(b"\n", scanned_bytes)) < 0:
            scanned_bytes = len(self._buffer)
            if scanned_bytes > max_bytes:
                raise ReplyTooLong(f"more than {max_bytes} bytes")
            piece = await self.process.stdout.read(_READ_BYTES)
            if not piece:
                return None
            self._buffer += piece
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line

    async def kill(self) -> None:
        """Kill the process and its descendants, and wait until they have ended."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self._requests.close()
        if is_linux() and not self.confinement.system_call_filter:
            await self._kill_orphans()
        assert self.process.stdout is not None
        # The transport of a pipe with unread bytes would never close.
        while await self.process.stdout.read(_READ_BYTES):
            pass
        await self.process.wait()
        _active_pids.discard(self.process.pid)

    async def _kill_orphans(self) -> None:
        """Kill surviving descendants. They may hold the reply pipe open, and ``kill`` waits for its end."""
        await asyncio.to_thread(self._kill_orphans_after_exit)

    def _kill_orphans_after_exit(self) -> None:
        with contextlib.suppress(ChildProcessError):  # process.wait would also wait for the end of the pipe
            os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)
        kill_orphans(frozenset(_active_pids))


async def find_confinement() -> Confinement:
    """Start a sandboxed process, and return the measures that this machine supports. Raises SandboxUnavailable."""
    process = await SandboxedProcess.start("app.sandbox.probe", {})
    await process.kill()
    return process.confinement
