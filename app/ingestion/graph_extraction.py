"""Extraction of the entity graph of a document's chunks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.graph.chunk_graph import extract_chunk_graph
from app.graph.extraction.extractor import ChunkText
from app.graph.types import ChunkGraph
from app.ingestion.types import ChunkDraft
from app.knowledge_bases.graph_settings import IndexGraph


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


def extract_graphs(source: GraphSource, drafts: Sequence[ChunkDraft]) -> list[ChunkGraph] | None:
    """Return the entities and relations of each chunk, or None if the search index has no graph. The function blocks.

    Args:
        source: Values of the document.
        drafts: The chunks.
    """
    if source.settings is None:
        return None
    metadata_keys = source.settings.metadata_keys
    return [
        extract_chunk_graph(
            ChunkText(
                text=draft.text,
                title=source.title or "",
                source_name=source.source,
                headings=tuple(draft.section_titles),
                metadata=source.metadata[position] if source.metadata else {},
                given=(),
                language=source.language,
            ),
            draft.provided_graph,
            metadata_keys=metadata_keys,
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
