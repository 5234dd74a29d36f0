"""Interface of serializers, which write the graph of a search's results as one text for a model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

MAX_GRAPH_CHARACTERS = 4000
"""Maximum number of characters of the text of a graph."""


@dataclass(frozen=True, slots=True)
class NamedPassage:
    """Result of a search.

    Attributes:
        chunk_id: Public id of its chunk.
        title: Title of its document, or the name of the document.
    """

    chunk_id: str
    title: str


@dataclass(frozen=True, slots=True)
class SharedName:
    """Entity, and the results that name it.

    Attributes:
        name: Name as a result writes it.
        kind: Kind of the entity, such as ``title``, ``name`` or ``identifier``.
        type: Type by an extractor or the caller, such as ``person``; None if it is unknown.
        passages: Results that name the entity, best first.
    """

    name: str
    kind: str
    type: str | None
    passages: Sequence[NamedPassage]


@dataclass(frozen=True, slots=True)
class StatedRelation:
    """Relation between two entities, and the result that is its evidence."""

    subject: str
    predicate: str
    object: str
    passage: NamedPassage


@dataclass(frozen=True, slots=True)
class ResultGraph:
    """Graph of the results of one search. The caller may read all of it.

    Attributes:
        names: Entities, those with the most results first.
        relations: Relations, in the order of the results.
        passages: The results, best first.
    """

    names: Sequence[SharedName]
    relations: Sequence[StatedRelation]
    passages: Sequence[NamedPassage]


@dataclass(frozen=True, slots=True)
class GraphSerializer:
    """Serializer: the object that an entry point names.

    Attributes:
        name: Name for the option ``serializer``.
        description: What it writes, for ``GET /v1/capabilities``.
        serialize: Function that returns the text; an empty text if there is nothing to say. It runs in a thread.
            A text of more than ``MAX_GRAPH_CHARACTERS`` characters is cut.
    """

    name: str
    description: str
    serialize: Callable[[ResultGraph], str]
