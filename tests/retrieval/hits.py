"""Hits made by hand, for what only orders them."""

from uuid import UUID

from app.retrieval.types import FoundChunk, FoundDocument, Hit


def hit(
    text: str, score: float, *, document: int = 1, ordinal: int = 0, similarity: float | None = None, index: int = 0
) -> Hit:
    """A chunk of this text."""
    chunk = FoundChunk(
        id=UUID(int=1000 * document + ordinal),
        version=1,
        ordinal=ordinal,
        content=text,
        start=0,
        end=len(text),
        page=None,
        page_end=None,
        slide=None,
        section_titles=[],
        node_path=[],
        media_ordinal=None,
        media_type=None,
        attributes={},
        flags=[],
    )
    found = FoundDocument(
        tenant_id=UUID(int=1),
        id=UUID(int=document),
        source="notes.txt",
        title=None,
        source_uri=None,
        source_created_at=None,
        media_type="text/plain",
        attributes={},
        chunk_count=1,
    )
    return Hit(UUID(int=index).bytes + chunk.id.bytes, chunk, found, "default", score, similarity)
