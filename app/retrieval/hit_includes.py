"""Addition of requested includes to the hits of a search, within its deadline."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from app.db.session import TenantDatabase
from app.graph.includes.loader import INCLUDE_FAILURES, load_include
from app.logging import get_logger
from app.retrieval import time_budget
from app.retrieval.search_run import SearchRun, get_failure_reason
from app.retrieval.types import Hit
from app.section_notes.types import SectionedChunk
from app.warnings import ServiceWarning, WarningCode

logger = get_logger(__name__)


async def add_includes(
    db: TenantDatabase, search_run: SearchRun, names: Sequence[str], hits: Sequence[Hit]
) -> Sequence[Hit]:
    """Return hits with the items of the requested includes. An include that is late or fails becomes a notice.

    Args:
        db: Database in the tenant's scope.
        search_run: Deadline, timings and notices of the search.
        names: Names of the includes.
        hits: Hits that the search returns. A hit of an HTTP source gets no items.

    Raises:
        StaleCacheError: The cached knowledge bases of the search are outdated.
    """
    if not names or not hits:
        return hits
    chunks = {hit.key: to_sectioned_chunk(hit) for hit in hits if not hit.is_external}
    items: dict[str, Mapping[SectionedChunk, Sequence[Any]]] = {}
    with search_run.time_step("include"):
        for name in names:
            loaded = await _load_include(db, search_run, name, list(chunks.values()))
            if loaded is not None:
                items[name] = loaded
    return [replace(hit, included=_select_items(items, chunks.get(hit.key))) for hit in hits]


def _select_items(
    items: Mapping[str, Mapping[SectionedChunk, Sequence[Any]]], chunk: SectionedChunk | None
) -> dict[str, Sequence[Any]]:
    """Return the items of one chunk by include; a hit without a stored chunk has none."""
    return {name: () if chunk is None else loaded.get(chunk, ()) for name, loaded in items.items()}


async def _load_include(
    db: TenantDatabase, search_run: SearchRun, name: str, chunks: Sequence[SectionedChunk]
) -> Mapping[SectionedChunk, Sequence[Any]] | None:
    """Load the items of one include; None if the time is too short or the database does not answer."""
    if search_run.remaining_seconds < time_budget.MIN_INCLUDE_SECONDS:
        _skip_include(search_run, name, "no_time")
        return None
    timeout_seconds = search_run.remaining_seconds * time_budget.INCLUDE
    try:
        return await load_include(db, name, chunks, timeout_seconds=timeout_seconds)
    except INCLUDE_FAILURES as exc:
        logger.warning("search.include_failed", include=name, reason=get_failure_reason(exc))
        _skip_include(search_run, name, get_failure_reason(exc))
        return None


def _skip_include(search_run: SearchRun, name: str, reason: str) -> None:
    search_run.degrade("include", reason)
    message = f"The results have no {name.replace('_', ' ')}, because they were not loaded in time."
    search_run.add_notice(ServiceWarning(WarningCode.INCLUDE_SKIPPED, message))


def to_sectioned_chunk(hit: Hit) -> SectionedChunk:
    """Return the key of a hit's chunk with its place in the document tree."""
    chunk, document = hit.chunk, hit.document
    index_id = UUID(bytes=hit.key[:16])
    return SectionedChunk(document.tenant_id, index_id, chunk.id, document.id, chunk.version, tuple(chunk.node_path))
