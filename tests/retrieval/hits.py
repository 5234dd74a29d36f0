"""Hits for tests that only order them."""

from uuid import UUID

from app.retrieval.hit_parts import HitChunk, HitDocument
from app.retrieval.lazy_metadata import LazyMetadata
from app.retrieval.types import Hit


def hit(
    text: str,
    score: float,
    *,
    document: int = 1,
    ordinal: int = 0,
    similarity: float | None = None,
    index: int = 0,
    title: str | None = None,
) -> Hit:
    """Return a hit with this text."""
    stamp = LazyMetadata.from_entries({"$source": "notes.txt", "$title": title})
    chunk = HitChunk(
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
        image_ordinal=None,
        media_type=None,
        metadata=stamp,
    )
    found = HitDocument(
        tenant_id=UUID(int=1),
        id=UUID(int=document),
        chunk_count=1,
        metadata=stamp,
    )
    return Hit(UUID(int=index).bytes + chunk.id.bytes, chunk, found, "default", score, similarity)
