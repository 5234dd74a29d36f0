"""Pools of real parser processes, and the directories of the sample files."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from app.ingestion.parsers import ParseOptions, ParserSpec

if TYPE_CHECKING:
    from app.ingestion.parsers.sandbox.pool import ParserPool

ROOT = Path(__file__).resolve().parents[3]
MISBEHAVING = ParserSpec("test/misbehaving", ("bad",), "tests.ingestion.parsers.misbehaving")
LIMITS: dict[str, Any] = {
    "processes": 1,
    "memory_mb": 1000,
    "cpu_timeout_seconds": 30,
    "wall_clock_timeout_seconds": 60,
    "max_pages": 100,
    "max_characters": 200_000,
}

OpenPool = Callable[..., "ParserPool"]


@pytest.fixture
def samples() -> Path:
    return ROOT / "tests" / "samples"


@pytest.fixture
def demo() -> Path:
    return ROOT / "samples"


@pytest.fixture
def options() -> ParseOptions:
    return ParseOptions(None, max_pages=100, max_characters=200_000)


@pytest.fixture(scope="session")
async def pool() -> AsyncIterator[ParserPool]:
    """Pool of the product's parsers, shared by all tests."""
    from app.ingestion.parsers.sandbox.pool import ParserPool

    pool = ParserPool(**LIMITS)
    yield pool
    await pool.close()


@pytest.fixture(scope="session")
async def bad_pool() -> AsyncIterator[ParserPool]:
    """Pool of the misbehaving parser for all tests without special limits."""
    from app.ingestion.parsers.sandbox.pool import ParserPool

    pool = ParserPool(**LIMITS, parsers={MISBEHAVING.media_type: MISBEHAVING})
    yield pool
    await pool.close()


@pytest.fixture
async def open_pool() -> AsyncIterator[OpenPool]:
    """Factory of pools with the test's limits. They have only the misbehaving parser, so that they start quickly."""
    pools: list[ParserPool] = []

    def opened(**limits: Any) -> ParserPool:
        from app.ingestion.parsers.sandbox.pool import ParserPool

        parsers = {MISBEHAVING.media_type: MISBEHAVING}
        pools.append(ParserPool(**{**LIMITS, "parsers": parsers, **limits}))
        return pools[-1]

    yield opened
    for pool in pools:
        await pool.close()
