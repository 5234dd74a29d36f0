"""Sandboxed processes: start, inputs and end."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import uvloop

from app.sandbox.descriptors import create_sealed_copy
from app.sandbox.process import ReplyTooLong, SandboxedProcess, SandboxUnavailable

GUARD = 30
PROGRAM = "tests.sandbox.program"
SETUP = {"memory_mb": 500}


@pytest.fixture
async def process() -> AsyncIterator[SandboxedProcess]:
    started = await SandboxedProcess.start(PROGRAM, SETUP)
    yield started
    await started.kill()


async def ask(process: SandboxedProcess, *descriptors: int, **request: Any) -> Any:
    async with asyncio.timeout(GUARD):
        await process.send(json.dumps(request).encode() + b"\n", descriptors)
        line = await process.read_line(1 << 22)
    assert line is not None
    return json.loads(line)


async def test_request_with_descriptors_reads_the_files(process: SandboxedProcess, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("four")
    (tmp_path / "b").write_text("sixsix")
    with (tmp_path / "a").open("rb") as one, (tmp_path / "b").open("rb") as other:
        assert await ask(process, one.fileno(), other.fileno(), do="read") == {"lengths": [4, 6]}


async def test_request_after_another_finds_no_old_descriptor(process: SandboxedProcess, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("four")
    before = await ask(process, do="descriptors")
    with (tmp_path / "a").open("rb") as file:
        await ask(process, file.fileno(), do="read")
    assert await ask(process, do="descriptors") == before
    assert before["open"]


@pytest.mark.parametrize("size", [10, 3_000_000])
async def test_sealed_copy_is_opened_by_name(process: SandboxedProcess, tmp_path: Path, size: int) -> None:
    path = tmp_path / "closed"
    path.write_text("x" * size)
    path.chmod(0o600)
    async with create_sealed_copy(path) as descriptor:
        assert descriptor is not None
        answer = await ask(process, descriptor, do="open")
        with pytest.raises(PermissionError):
            os.ftruncate(descriptor, 1)
        with pytest.raises(PermissionError):
            os.pwrite(descriptor, b"y", 0)
    assert answer == {"text": "x" * size}


async def test_sealed_copy_of_missing_file_raises(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        async with create_sealed_copy(tmp_path / "missing"):
            raise AssertionError("there is nothing to copy")


async def test_readable_path_below_closed_directory_is_read_and_others_are_not(tmp_path: Path) -> None:
    given, neighbour = tmp_path / "closed" / "given" / "file", tmp_path / "closed" / "neighbour"
    given.parent.mkdir(parents=True)
    given.write_text("given")
    neighbour.write_text("secret")
    neighbour.chmod(0o644)
    given.parent.parent.chmod(0o700)
    process = await SandboxedProcess.start(PROGRAM, {**SETUP, "readable": [str(given.parent)]})
    try:
        assert await ask(process, do="read path", path=str(given)) == {"text": "given"}
        for path in (neighbour, given.parent / ".." / "neighbour"):
            assert await ask(process, do="read path", path=str(path)) == {"text": None}
    finally:
        await process.kill()


async def test_answer_above_limit_raises(process: SandboxedProcess) -> None:
    await process.send(json.dumps({"do": "say", "characters": 500_000}).encode() + b"\n")
    async with asyncio.timeout(GUARD):
        with pytest.raises(ReplyTooLong):
            await process.read_line(1000)


@pytest.mark.parametrize(("module", "setup"), [("tests.sandbox.no_such_module", SETUP), (PROGRAM, {})])
async def test_program_that_ends_at_once_is_unavailable(module: str, setup: dict[str, Any]) -> None:
    with pytest.raises(SandboxUnavailable):
        await SandboxedProcess.start(module, setup)


def test_process_works_on_the_worker_event_loop(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("four")

    async def run() -> Any:
        process = await SandboxedProcess.start(PROGRAM, SETUP)
        try:
            with (tmp_path / "a").open("rb") as file:
                return await ask(process, file.fileno(), do="read")
        finally:
            await process.kill()

    assert uvloop.run(run()) == {"lengths": [4]}
