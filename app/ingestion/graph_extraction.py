"""Extraction of the entity graph of a document's chunks."""

import asyncio
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

from app.graph.chunk_graph import extract_chunk_graph
from app.graph.extraction.extractor import ChunkText
from app.graph.extraction.extractors import Extractors
from app.graph.extraction.types import Entity
from app.graph.types import ChunkGraph
from app.ingestion.types import ChunkDraft
from app.knowledge_bases.graph_settings import IndexGraph
from app.warnings import ServiceWarning


@dataclass(frozen=True, slots=True)
class GraphSource:
    """Values of a document that its entities come from, in addition to the chunks.

    Attributes:
        settings: Settings of the graph; None if the search index has no graph.
        title: Title of the document.
        source: Name of the document.
        language: Language of the document's analyzer.
        metadata: Metadata of each chunk with that of the document. It may be empty if no metadata key is an entity.
    """

    settings: IndexGraph | None
    title: str | None
    source: str
    language: str
    metadata: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True)
class PluginEntities:
    """Entities that plugins found in each chunk, and warnings for the owner of the document.

    ``entities`` is empty if the search index uses no plugins.
    """

    entities: Sequence[Sequence[Entity]] = ()
    warnings: Sequence[ServiceWarning] = ()


async def find_plugin_entities(
    extractors: Extractors, source: GraphSource, drafts: Sequence[ChunkDraft]
) -> PluginEntities:
    """Run the extractors of plugins that the search index uses. A failure is a warning.

    No transaction may be open, because a plugin may need minutes.

    Args:
        extractors: Installed extractors.
        source: Values of the document.
        drafts: The chunks.
    """
    if source.settings is None or not source.settings.extractors:
        return PluginEntities()
    chunks = await asyncio.to_thread(_build_plugin_chunks, source, drafts)
    entities, warnings = await extractors.find_entities(source.settings.extractors, chunks)
    return PluginEntities(entities, warnings)


def extract_graphs(
    source: GraphSource, drafts: Sequence[ChunkDraft], plugin_entities: Sequence[Sequence[Entity]] = ()
) -> list[ChunkGraph] | None:
    """Return the entities and relations of each chunk, or None if the search index has no graph. The function blocks.

    Args:
        source: Values of the document.
        drafts: The chunks.
        plugin_entities: Entities that plugins found in each chunk; empty without plugins.
    """
    if source.settings is None:
        return None
    metadata_keys = source.settings.metadata_keys
    return [
        extract_chunk_graph(
            _build_chunk_text(source, position, draft),
            draft.provided_graph,
            metadata_keys=metadata_keys,
            plugin_entities=plugin_entities[position] if plugin_entities else (),
        )
        for position, draft in enumerate(drafts)
    ]


def _build_chunk_text(source: GraphSource, position: int, draft: ChunkDraft) -> ChunkText:
    return ChunkText(
        text=draft.text,
        title=source.title or "",
        source_name=source.source,
        headings=tuple(draft.section_titles),
        metadata=source.metadata[position] if source.metadata else {},
        given=(),
        language=source.language,
    )


def _build_plugin_chunks(source: GraphSource, drafts: Sequence[ChunkDraft]) -> list[ChunkText]:
    """Return the chunks for a plugin, with copies of the metadata and with the names of provided entities."""
    return [
        replace(
            _build_chunk_text(source, position, draft),
            metadata=deepcopy(source.metadata[position]) if source.metadata else {},
            given=tuple(dict.fromkeys(entity.name for entity in draft.provided_graph.list_entities())),
        )
        for position, draft in enumerate(drafts)
    ]


def build_chunk_metadata(
    document_metadata: Mapping[str, Any], drafts: Sequence[ChunkDraft], enforced_keys: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return the metadata of each chunk with that of the document.

    Args:
        document_metadata: Metadata of the document.
        drafts: The chunks.
        enforced_keys: Metadata that the knowledge base enforces. It overrides the metadata of chunks.
    """
    return [
        {**document_metadata, **{key: value for key, value in draft.metadata.items() if key not in enforced_keys}}
        for draft in drafts
    ]
