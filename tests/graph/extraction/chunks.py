"""Chunks for tests of the extraction of entities."""

from typing import Any

from app.graph.extraction.extractor import ChunkText, extract_mentions
from app.graph.extraction.types import EntityMention


def chunk(text: str, language: str | None = "english", **fields: Any) -> ChunkText:
    """Return a chunk with empty surroundings, except for the fields."""
    parts: dict[str, Any] = {"title": "", "source_name": "", "headings": (), "metadata": {}, "given": ()}
    return ChunkText(text=text, language=language, **(parts | fields))


def mentions(text: str, language: str | None = "english", **fields: Any) -> dict[str, EntityMention]:
    """Return the entities of a chunk by their normalized names."""
    keys = fields.pop("metadata_keys", ())
    found = extract_mentions(chunk(text, language, **fields), metadata_keys=keys)
    by_key = {mention.key_text: mention for mention in found}
    assert len(by_key) == len(found), "an entity is returned once"
    return by_key


def names(text: str, language: str | None = "english", **fields: Any) -> set[str]:
    """Return the names of the entities of a chunk, as they are written."""
    return {mention.name for mention in mentions(text, language, **fields).values()}
