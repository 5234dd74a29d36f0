"""Limits of the pool, each against a real process that exceeds it, and the pool's work afterwards."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from app.ingestion.parsers.sandbox.pool import ParserPool, ParserUnavailable
from app.ingestion.types import (
    CorruptFile,
    IngestionError,
    ParsedDocument,
    ParserCrashed,
    ParserKilled,
    ParserOutOfMemory,
    ParserTimeout,
    UnsupportedFormat,
)
from tests.ingestion.parsers.conftest import MISBEHAVING, OpenPool

GUARD = 30


async def ask(pool: ParserPool, directory: Path, command: str) -> ParsedDocument:
    path = directory / "command.bad"
    path.write_text(command)
    async with asyncio.timeout(GUARD):
        return await pool.parse(path, MISBEHAVING.media_type)


async def text_of(pool: ParserPool, directory: Path, command: str) -> str:
    return (await ask(pool, directory, command)).blocks[0].text


def is_alive(pid: int) -> bool:
    """Return whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until_dead(pid: int) -> bool:
    end = time.monotonic() + GUARD
    while is_alive(pid) and time.monotonic() < end:
        time.sleep(0.02)
    return not is_alive(pid)


@pytest.mark.parametrize(
    ("command", "limits", "error"),
    [
        ("loop", {"cpu_timeout_seconds": 1}, ParserTimeout),
        ("sleep", {"wall_clock_timeout_seconds": 1}, ParserTimeout),
        ("eat", {"memory_mb": 300}, ParserOutOfMemory),
        ("giant 999", {"max_characters": 1000}, ParserCrashed),
        ("giant 200000", {"max_characters": 1000}, ParserCrashed),
    ],
)
async def test_exceeded_limit_is_error_and_pool_continues(
    command: str, limits: dict[str, int], error: type[IngestionError], open_pool: OpenPool, tmp_path: Path
) -> None:
    pool = open_pool(**limits)
    with pytest.raises(error) as caught:
        await ask(pool, tmp_path, command)
    assert type(caught.value) is error
    assert await text_of(pool, tmp_path, "noise") == "quiet"


@pytest.mark.parametrize(
    ("command", "error"),
    [
        ("crash", ParserCrashed),
        ("killed", ParserKilled),
        ("fail", CorruptFile),
        ("raw not json", ParserCrashed),
        ("raw []", ParserCrashed),
        ("raw 7", ParserCrashed),
        ('raw {"blocks":[["paragraph","a\\u0000b",0,null,null]]}', ParserCrashed),
        ('raw {"blocks":[["paragraph","\\ud800",0,null,null]]}', ParserCrashed),
        ('raw {"blocks":[["unheard","a",0,null,null]]}', ParserCrashed),
        ('raw {"blocks":[["paragraph","a",0,-1,null]]}', ParserCrashed),
        ('raw {"failed":{"error":"SystemExit","message":""},"resident_mb":1}', ParserCrashed),
        ('raw {"done":{"title":1,"page_count":1,"warnings":[]},"resident_mb":1}', ParserCrashed),
        ('raw {"done":{"title":null,"page_count":1,"warnings":["plain"]},"resident_mb":1}', ParserCrashed),
        ('raw {"done":{"title":null,"page_count":1,"warnings":[["No code","m"]]},"resident_mb":1}', ParserCrashed),
        ('raw {"done":{"title":null,"page_count":1,"warnings":[["a_code",1]]},"resident_mb":1}', ParserCrashed),
    ],
)
async def test_misbehaving_child_is_error_and_pool_continues(
    command: str, error: type[IngestionError], bad_pool: ParserPool, tmp_path: Path
) -> None:
    with pytest.raises(error) as caught:
        await ask(bad_pool, tmp_path, command)
    assert type(caught.value) is error
    assert await text_of(bad_pool, tmp_path, "noise") == "quiet"


@pytest.mark.parametrize(
    ("action", "outcome"),
    [
        ("connect", "PermissionError"),
        ("resolve", "PermissionError"),
        ("run", "PermissionError"),
        ("fork", "PermissionError"),
        ("write", "PermissionError"),
        ("nothing", "no exception"),
    ],
)
async def test_parser_forbidden_action_fails(action: str, outcome: str, bad_pool: ParserPool, tmp_path: Path) -> None:
    assert await text_of(bad_pool, tmp_path, f"attempt {action}") == outcome


async def test_parser_child_environment_has_no_secrets(
    open_pool: OpenPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CARREL_OPERATOR_KEY", "secret")
    names = (await text_of(open_pool(), tmp_path, "environment")).split()
    assert set(names) <= {"PATH", "LANG", "LC_CTYPE", "MALLOC_ARENA_MAX", "ORT_DISABLE_TELEMETRY"}


async def test_parser_child_serves_many_documents_and_is_replaced_after_kill(
    open_pool: OpenPool, tmp_path: Path
) -> None:
    pool = open_pool(wall_clock_timeout_seconds=1)
    first, second = [await text_of(pool, tmp_path, "process") for _ in range(2)]
    with pytest.raises(ParserTimeout):
        await ask(pool, tmp_path, "sleep")
    assert first == second != await text_of(pool, tmp_path, "process")
    assert not is_alive(int(first))


async def test_parser_child_is_replaced_after_many_requests(open_pool: OpenPool, tmp_path: Path) -> None:
    pool = open_pool(recycle_after_requests=2)
    pids = [await text_of(pool, tmp_path, "process") for _ in range(4)]
    assert pids[0] == pids[1] != pids[2] == pids[3]


async def test_parse_in_child_that_has_grown_uses_another_child_next(open_pool: OpenPool, tmp_path: Path) -> None:
    pool = open_pool()
    grown = await text_of(pool, tmp_path, "grow 400")
    assert await text_of(pool, tmp_path, "process") != grown
    assert not is_alive(int(grown))


async def test_cancelled_parse_kills_child(open_pool: OpenPool, tmp_path: Path) -> None:
    pool, started = open_pool(), asyncio.Event()
    child = int(await text_of(pool, tmp_path, "process"))
    path = tmp_path / "command.bad"
    path.write_text("sleep loudly")
    task = asyncio.create_task(pool.parse(path, MISBEHAVING.media_type, on_progress=lambda *_: started.set()))
    async with asyncio.timeout(GUARD):
        await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not is_alive(child)
    assert await text_of(pool, tmp_path, "noise") == "quiet"


async def test_callers_above_process_count_wait(open_pool: OpenPool, tmp_path: Path) -> None:
    pool = open_pool(processes=2)
    paths = [tmp_path / f"{number}.bad" for number in range(6)]
    for path in paths:
        path.write_text("process")
    async with asyncio.timeout(GUARD):
        documents = await asyncio.gather(*(pool.parse(path, MISBEHAVING.media_type) for path in paths))
    assert len({document.blocks[0].text for document in documents}) == 2


async def test_start_processes_and_close_start_and_end_children(open_pool: OpenPool, tmp_path: Path) -> None:
    pool = open_pool()
    await pool.start_processes()
    child = int(await text_of(pool, tmp_path, "process"))
    assert is_alive(child)
    await pool.close()
    assert not is_alive(child)


async def test_media_type_without_parser_starts_no_child(open_pool: OpenPool, tmp_path: Path) -> None:
    pool = open_pool(processes=1, memory_mb=1)
    with pytest.raises(UnsupportedFormat):
        await pool.parse(tmp_path / "x", "application/x-unheard-of")


async def test_child_that_cannot_start_is_parser_unavailable(open_pool: OpenPool, tmp_path: Path) -> None:
    broken = type(MISBEHAVING)(MISBEHAVING.media_type, (), "tests.ingestion.parsers.no_such_module")
    with pytest.raises(ParserUnavailable):
        await open_pool(parsers={broken.media_type: broken}).start_processes()


async def test_missing_file_is_corrupt(bad_pool: ParserPool, tmp_path: Path) -> None:
    with pytest.raises(CorruptFile):
        await bad_pool.parse(tmp_path / "missing.bad", MISBEHAVING.media_type)


ORPHAN = """
import asyncio, sys
from pathlib import Path
from app.ingestion.parsers.sandbox.pool import ParserPool
from tests.ingestion.parsers.conftest import LIMITS, MISBEHAVING

async def main(directory):
    pool = ParserPool(**{**LIMITS, "cpu_timeout_seconds": 600}, parsers={MISBEHAVING.media_type: MISBEHAVING})
    (directory / "process.bad").write_text("process")
    (directory / "loop.bad").write_text("loop")
    document = await pool.parse(directory / "process.bad", MISBEHAVING.media_type)
    task = asyncio.create_task(pool.parse(directory / "loop.bad", MISBEHAVING.media_type))
    await asyncio.sleep(0.2)
    print(document.blocks[0].text, flush=True)
    await task

asyncio.run(main(Path(sys.argv[1])))
"""


def test_busy_child_ends_with_service(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ORPHAN, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as service:
        assert service.stdout is not None
        child = int(service.stdout.readline())
        assert is_alive(child)
        os.kill(service.pid, signal.SIGKILL)
    assert wait_until_dead(child)
