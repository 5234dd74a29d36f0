"""Slow network link to a server of any protocol: a TCP proxy that delays or holds back the server's replies."""

import asyncio
import threading
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit, urlunsplit

BLOCK_BYTES = 65536


@dataclass
class SlowLink:
    """TCP proxy to ``target`` while its ``with`` block runs. Its ``url`` is the target with another port.

    Data from the server arrives ``delay_seconds`` later. After ``stall``, it is held back until ``release``.
    """

    target: str
    delay_seconds: float = 0.0
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)

    def __enter__(self) -> Self:
        self._open = asyncio.Event()
        self._open.set()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._port = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def url(self) -> str:
        """Address of the server through this link."""
        parts = urlsplit(self.target)
        head, _, _ = parts.netloc.rpartition(":")
        return urlunsplit(parts._replace(netloc=f"{head}:{self._port}"))

    def stall(self) -> None:
        """Hold back data from the server from now on."""
        self._loop.call_soon_threadsafe(self._open.clear)

    def release(self) -> None:
        """Deliver the data that was held back, and further data."""
        self._loop.call_soon_threadsafe(self._open.set)

    async def _listen(self) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def _end(self) -> None:
        self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        parts = urlsplit(self.target)
        from_server, to_server = await asyncio.open_connection(parts.hostname, parts.port)
        late: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        pumps = [self._forward(reader, to_server), self._receive(from_server, late), self._deliver(late, writer)]
        tasks = [asyncio.create_task(pump) for pump in pumps]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            to_server.close()
            writer.close()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while block := await reader.read(BLOCK_BYTES):
            writer.write(block)
            await writer.drain()

    async def _receive(self, reader: asyncio.StreamReader, late: asyncio.Queue[tuple[float, bytes]]) -> None:
        """Store blocks with their time of arrival: the link has latency, but no limit of bandwidth.

        The task runs until the client closes the connection.
        """
        while block := await reader.read(BLOCK_BYTES):
            late.put_nowait((self._loop.time() + self.delay_seconds, block))
        late.put_nowait((self._loop.time() + self.delay_seconds, b""))
        await asyncio.Event().wait()

    async def _deliver(self, late: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter) -> None:
        while True:
            when, block = await late.get()
            await asyncio.sleep(when - self._loop.time())
            await self._open.wait()
            if not block:
                return
            writer.write(block)
            await writer.drain()
