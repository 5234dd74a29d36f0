"""Attacks of one tenant on another, each in a separate process, for ``proofs.noisy_neighbour``."""

import asyncio
import json
import multiprocessing
import resource
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.synchronize import Event
from typing import Any
from urllib.parse import urlsplit

PATTERN_CHARACTERS, PATTERN_COUNT = 256, 16
# The metadata of the attacker's chunks repeats this text. A pattern matches it except for the pattern's end.
PATTERN_UNIT = "ab"
# Time until a refused connection is opened again.
REFUSED_DELAY_SECONDS = 30
QUERIES = [f"lighthouse keeper number {number}" for number in range(16)]


def build_expensive_filter() -> dict[str, Any]:
    """Build a filter with sixteen ``contains`` patterns of 256 characters that match no value."""
    stem = PATTERN_UNIT * (PATTERN_CHARACTERS // 2 - 3)
    return {
        "or": [{"blob": {"contains": f"{stem}{number:06d}"[-PATTERN_CHARACTERS:]}} for number in range(PATTERN_COUNT)]
    }


def build_request(key: str, path: str, body: dict[str, Any] | None, host: str) -> bytes:
    """Build the bytes of an HTTP request with ``Connection: close``."""
    content = b"" if body is None else json.dumps(body).encode()
    head = [
        f"{'GET' if body is None else 'POST'} {path} HTTP/1.1",
        f"Host: {host}",
        f"Authorization: Bearer {key}",
        "Connection: close",
    ]
    if body is not None:
        head += ["Content-Type: application/json", f"Content-Length: {len(content)}"]
    return "\r\n".join([*head, "", ""]).encode() + content


async def send_request(url: str, request: bytes) -> int:
    """Send a request, read the whole reply, and return its status, or 0 without a reply."""
    place = urlsplit(url)
    writer = None
    try:
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        writer.write(request)
        status = int((await reader.readline()).split()[1])
        while await reader.read(1 << 20):
            pass
    except (OSError, IndexError, ValueError):
        return 0
    finally:
        if writer is not None:
            writer.close()
    return status


async def send_repeatedly(url: str, request: bytes, at_once: int, stop: Event, reported: Counter[int]) -> None:
    """Send a request repeatedly from ``at_once`` concurrent callers. A refused caller waits 0.2 s."""

    async def send_until_stopped() -> None:
        while not stop.is_set():
            status = await send_request(url, request)
            reported[status] += 1
            if status in (0, 429, 503):
                await asyncio.sleep(0.2)

    await asyncio.gather(*(send_until_stopped() for _ in range(at_once)))


async def occupy_connections(url: str, first: bytes, connections: int, stop: Event, reported: Counter[int]) -> None:
    """Keep ``connections`` connections open, each with the first bytes of a request. Reopen closed connections."""
    place = urlsplit(url)

    async def occupy_connection() -> None:
        while not stop.is_set():
            writer = None
            try:
                reader, writer = await asyncio.open_connection(place.hostname, place.port)
                reported[1] += 1
                writer.write(first)
                reply = b""
                while not stop.is_set():
                    with suppress(TimeoutError):
                        if not (piece := await asyncio.wait_for(reader.read(65_536), 1)):
                            break
                        reply = reply or piece
                if reply.startswith(b"HTTP/1.1 429"):
                    reported[429] += 1
                    await asyncio.sleep(REFUSED_DELAY_SECONDS)
            except OSError:
                reported[0] += 1
            finally:
                if writer is not None:
                    writer.close()
            await asyncio.sleep(0.5)

    tasks = []
    for number in range(connections):
        tasks.append(asyncio.create_task(occupy_connection()))
        if number % 100 == 99:
            await asyncio.sleep(0.2)
    await asyncio.gather(*tasks)


def _run_attack(work: Callable[..., Awaitable[None]], arguments: tuple[Any, ...], stop: Event, reported: Any) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 20_000) if hard > 0 else soft, hard))
    counts: Counter[int] = Counter()

    async def run_until_stopped() -> None:
        attack = asyncio.ensure_future(work(*arguments, stop, counts))
        while not stop.is_set():
            await asyncio.wait([attack], timeout=0.2)
        attack.cancel()
        await asyncio.gather(attack, return_exceptions=True)

    asyncio.run(run_until_stopped())
    reported.put(dict(counts))


@contextmanager
def attack_process(work: Callable[..., Awaitable[None]], *arguments: Any) -> Iterator[dict[int, int]]:
    """Run an attack in another process until the block ends; yield a dictionary that then counts replies by status."""
    context = multiprocessing.get_context("spawn")
    stop, reported, result = context.Event(), context.Queue(), dict[int, int]()
    process = context.Process(target=_run_attack, args=(work, arguments, stop, reported), daemon=True)
    process.start()
    try:
        yield result
    finally:
        stop.set()
        with suppress(Exception):
            result.update(reported.get(timeout=15))
        process.join(10)
        if process.is_alive():
            process.kill()


class Tarpit:
    """Server that accepts every connection and never replies."""

    def __init__(self) -> None:
        self.port = 0
        self._writers: list[asyncio.StreamWriter] = []

    async def serve(self) -> asyncio.Server:
        """Listen on a free port of this machine."""
        server = await asyncio.start_server(self._read_forever, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def _read_forever(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        while await reader.read(65_536):
            pass
