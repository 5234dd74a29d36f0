"""Entities and relations of chunks, as ingestion finds them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from app.graph.extraction.types import EntityMention


@dataclass(frozen=True, slots=True)
class RelationMention:
    """A relation that a chunk is evidence for.

    Attributes:
        subject_text: Normalized name of the subject.
        object_text: Normalized name of the object.
        predicate: The relation, such as ``composed``.
        method: Source of the relation: ``given``, or the name of an extractor.
        start: Offset of the evidence in the chunk's text; None if it is unknown.
        end: Offset behind the evidence.
    """

    subject_text: str
    object_text: str
    predicate: str
    method: str
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True, slots=True)
class ChunkGraph:
    """Entities and relations of one chunk. ``types`` has the types of some entities by their normalized names."""

    mentions: Sequence[EntityMention] = ()
    relations: Sequence[RelationMention] = ()
    types: Mapping[str, str] = field(default_factory=dict)
