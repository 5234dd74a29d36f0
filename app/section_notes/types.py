"""Types of section notes: summaries and keywords of sections, and the chunks that they are extracted from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple
from uuid import UUID

NoteMethod = Literal["extractive", "model"]
"""Method of a note: ``extractive`` without a model, or ``model`` if a chat model wrote it."""


class SectionedChunk(NamedTuple):
    """Chunk whose sections get notes. The caller has checked that the chunk may be read.

    Attributes:
        tenant_id: Owner of the chunk; the system tenant if it is shared.
        index_id: Search index of the chunk.
        chunk_id: The chunk.
        document_id: Document of the chunk.
        version: Version of the document.
        node_path: Path of the chunk's node from the root.
    """

    tenant_id: UUID
    index_id: UUID
    chunk_id: UUID
    document_id: UUID
    version: int
    node_path: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Keyword:
    """Keyword of a section, with its score from 0 to 1 and the method that found it."""

    keyword: str
    score: float
    method: NoteMethod = "extractive"


@dataclass(frozen=True, slots=True)
class SectionSummary:
    """Summary of a section.

    Attributes:
        node_id: Node of the section.
        kind: ``document`` for the root of the tree, else ``section``.
        title: Heading of the section; None without one.
        summary: Summary; empty if the section has no sentences.
        method: Method of the summary.
    """

    node_id: UUID
    kind: str
    title: str | None
    summary: str
    method: NoteMethod = "extractive"


@dataclass(frozen=True, slots=True)
class SectionNote:
    """Summary and keywords of a section; the keywords are empty if they were not requested."""

    summary: SectionSummary
    keywords: Sequence[Keyword]


@dataclass(frozen=True, slots=True)
class SectionChunk:
    """Chunk of a section, as extraction reads it.

    Attributes:
        text: Text of the chunk, without the head of a table that it repeats.
        vector: Vector of unit length; empty if the chunk has none.
        weights: BM25 weight of each term, by the id of the term.
        names: Names of the entities of the chunk, with their counts.
    """

    text: str
    vector: Sequence[float] = ()
    weights: Mapping[int, float] = field(default_factory=dict)
    names: Mapping[str, int] = field(default_factory=dict)
