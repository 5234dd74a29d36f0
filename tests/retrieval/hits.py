"""Hits made by hand, for what only orders them."""

from uuid import UUID

from app.retrieval.types import FoundChunk, FoundDocument, Hit, Stamp


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
    """A chunk of this text."""
    stamp = Stamp.of({"$source": "notes.txt", "$title": title})
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
        stamp=stamp,
    )
    found = FoundDocument(
        tenant_id=UUID(int=1),
        id=UUID(int=document),
        chunk_count=1,
        stamp=stamp,
    )
    return Hit(UUID(int=index).bytes + chunk.id.bytes, chunk, found, "default", score, similarity)
