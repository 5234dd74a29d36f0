"""Extractors of plugins: their interface, their registry, and calls with a time limit that never fail."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import EntryPoint
from typing import Any, Protocol

from app.graph.extraction.extractor import BUILTIN_KINDS, MAX_COUNT, ChunkText
from app.graph.extraction.names import normalize_name
from app.graph.extraction.types import MAX_NAME_CHARACTERS, Entity
from app.logging import get_logger
from app.plugins import EXTRACTORS as GROUP
from app.plugins import InvalidPlugin, merge_plugins
from app.threads import DaemonThreads
from app.warnings import ServiceWarning, WarningCode

logger = get_logger(__name__)

BATCH_CHUNKS = 64
"""Number of chunks that an extractor gets at once."""

BATCH_TIMEOUT_SECONDS = 60.0
"""Time that an extractor has for one batch. The time of its first batch includes the load of its model."""

MAX_VERSION_CHARACTERS = 64
_VALID_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_VALID_KIND = re.compile(r"[a-z][a-z0-9_]{0,31}")


class EntityExtractor(Protocol):
    """Extractor of entities: the object that an entry point names.

    Attributes:
        name: Name of the extractor: small letters, digits, ``_`` and ``-``.
        version: Version of its rules or its model, at most 64 characters.
    """

    @property
    def name(self) -> str:
        """Return the name of the extractor."""
        ...

    @property
    def version(self) -> str:
        """Return the version of the extractor."""
        ...

    def extract(self, chunks: Sequence[ChunkText]) -> Sequence[Sequence[Entity]]:
        """Return the entities of each chunk, in the order of the chunks.

        The function runs in a thread of the worker, one call at a time. It loads its model at the first call.

        Args:
            chunks: At most 64 chunks of one document.

        Returns:
            A sequence of entities for each chunk.
        """
        ...


class LateExtractor(Exception):
    """The extractor did not answer in time."""


@cache
def load_extractors() -> Mapping[str, EntityExtractor]:
    """Return the extractors of plugins by name. They are loaded once per process."""
    empty: dict[str, EntityExtractor] = {}
    return merge_plugins(GROUP, empty, _validate_entry)


def _validate_entry(
    _entry: EntryPoint, extractor: Any, _existing: Mapping[str, EntityExtractor]
) -> dict[str, EntityExtractor]:
    name, version = getattr(extractor, "name", None), getattr(extractor, "version", None)
    if isinstance(extractor, type) or not callable(getattr(extractor, "extract", None)):
        raise InvalidPlugin("The entry point of an extractor must name an object with the method extract.")
    if not isinstance(name, str) or not _VALID_NAME.fullmatch(name):
        raise InvalidPlugin("The name of an extractor must be small letters, digits, _ and -, and begin with a letter.")
    if not isinstance(version, str) or not 0 < len(version) <= MAX_VERSION_CHARACTERS:
        raise InvalidPlugin(f"The version of an extractor must be a text of 1 to {MAX_VERSION_CHARACTERS} characters.")
    return {name: extractor}


class GuardedExtractor:
    """Extractor of a plugin whose calls have a time limit and become warnings when they fail.

    A thread that computes cannot be ended from outside. Therefore, calls wait while a late call still runs, and fail
    after the time limit. So an extractor never has more than one thread.
    """

    def __init__(self, extractor: EntityExtractor, *, timeout_seconds: float = BATCH_TIMEOUT_SECONDS) -> None:
        """Create the guard.

        Args:
            extractor: Extractor of a plugin.
            timeout_seconds: Time for one batch.
        """
        self.extractor = extractor
        self.timeout_seconds = timeout_seconds
        self._lock = asyncio.Lock()
        self._threads = DaemonThreads(f"extractor-{extractor.name}", 1)

    async def extract(self, chunks: Sequence[ChunkText]) -> tuple[list[list[Entity]], list[ServiceWarning]]:
        """Return the entities of each chunk, and warnings. After a failure, the remaining chunks have no entities.

        Args:
            chunks: Chunks of one document.
        """
        entities: list[list[Entity]] = []
        invalid = 0
        for first in range(0, len(chunks), BATCH_CHUNKS):
            batch = chunks[first : first + BATCH_CHUNKS]
            try:
                output, error = await self._run_batch(batch)
                if error is not None:
                    raise error
                valid, invalid_in_batch = _validate_output(output, len(batch))
            except Exception as exc:  # a plugin may raise any exception
                logger.warning("ingestion.extractor_failed", extractor=self.extractor.name, error=exc)
                message = (
                    f"The extractor {self.extractor.name!r} failed ({type(exc).__name__}), so {len(chunks) - first} of "
                    f"{len(chunks)} chunks have no entities of it."
                )
                missing: list[list[Entity]] = [[] for _ in range(len(chunks) - first)]
                return entities + missing, [*self._list_warnings(invalid), _create_warning(message)]
            entities += valid
            invalid += invalid_in_batch
        return entities, self._list_warnings(invalid)

    def _list_warnings(self, invalid: int) -> list[ServiceWarning]:
        if not invalid:
            return []
        return [
            _create_warning(
                f"The extractor {self.extractor.name!r} returned {invalid} entities with an invalid name, kind or "
                "count. They were left out."
            )
        ]

    async def _run_batch(self, batch: Sequence[ChunkText]) -> tuple[object, Exception | None]:
        """Run the extractor in a thread, after the end of an earlier call. Return its output or its error.

        Raises:
            LateExtractor: The extractor did not answer in time, or an earlier call still runs.
        """
        async with self._lock:
            try:
                async with asyncio.timeout(self.timeout_seconds):
                    return await self._threads.run(self.extractor.extract, batch)
            except TimeoutError as exc:
                raise LateExtractor from exc


def _create_warning(message: str) -> ServiceWarning:
    return ServiceWarning(WarningCode.ENTITIES_NOT_EXTRACTED, message)


def _validate_output(output: object, chunks: int) -> tuple[list[list[Entity]], int]:
    """Return the valid entities of each chunk, and the number of invalid ones.

    Raises:
        TypeError: The output is no sequence of sequences of ``Entity``.
        ValueError: The output has another number of chunks.
    """
    lists = [list(each) for each in output]  # type: ignore[attr-defined]
    if len(lists) != chunks:
        raise ValueError("The number of lists differs from the number of chunks.")
    if not all(isinstance(entity, Entity) for each in lists for entity in each):
        raise TypeError("An item is no Entity.")
    valid = [[entity for entity in each if _is_valid(entity)] for each in lists]
    return valid, sum(map(len, lists)) - sum(map(len, valid))


def _is_valid(entity: Any) -> bool:
    return (
        isinstance(entity.name, str)
        and 0 < len(entity.name) <= MAX_NAME_CHARACTERS
        and normalize_name(entity.name) != ""
        and isinstance(entity.kind, str)
        and _VALID_KIND.fullmatch(entity.kind) is not None
        and entity.kind not in BUILTIN_KINDS
        and isinstance(entity.count, int)
        and 1 <= entity.count <= MAX_COUNT
    )
