"""Entities and relations that a caller provides with a chunk."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

MAX_PROVIDED_ENTITIES = 64
"""Maximum number of different entities that come with a chunk, including the ends of its relations."""

MAX_PROVIDED_RELATIONS = 64
MAX_ENTITY_NAME_CHARACTERS = 200
MAX_PREDICATE_CHARACTERS = 100
MAX_ENTITY_COUNT = 1_000
"""Maximum number of occurrences of a provided entity."""


@dataclass(frozen=True, slots=True)
class ProvidedEntity:
    """An entity of a chunk, with an optional type such as ``person``, and its number of occurrences."""

    name: str
    type: str | None = None
    count: int = 1


@dataclass(frozen=True, slots=True)
class ProvidedRelation:
    """A relation between two entities of a chunk."""

    subject: str
    predicate: str
    object: str


@dataclass(frozen=True, slots=True)
class ProvidedGraph:
    """Entities and relations that came with a chunk. The ends of the relations are entities of the chunk too."""

    entities: Sequence[ProvidedEntity] = ()
    relations: Sequence[ProvidedRelation] = ()

    def list_entities(self) -> list[ProvidedEntity]:
        """Return the entities, followed by the ends of relations."""
        ends = [ProvidedEntity(name) for relation in self.relations for name in (relation.subject, relation.object)]
        return [*self.entities, *ends]

    def to_stored(self) -> dict[str, Any] | None:
        """Return the JSON form of a chunk's row; None if there are no entities and no relations."""
        if not self.entities and not self.relations:
            return None
        return {
            "entities": [asdict(entity) for entity in self.entities],
            "relations": [asdict(relation) for relation in self.relations],
        }

    @classmethod
    def from_stored(cls, stored: Mapping[str, Any] | None) -> "ProvidedGraph":
        """Return the entities and relations of the JSON form."""
        if stored is None:
            return NO_PROVIDED_GRAPH
        return cls(
            tuple(ProvidedEntity(**entity) for entity in stored["entities"]),
            tuple(ProvidedRelation(**relation) for relation in stored["relations"]),
        )


NO_PROVIDED_GRAPH = ProvidedGraph()
