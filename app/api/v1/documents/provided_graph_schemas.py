"""Schemas of the entities and relations that come with a chunk."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, Field, StringConstraints, model_validator

from app.api.http.request_models import STORABLE
from app.api.v1.schemas import LargeRequestModel
from app.documents.provided_graph import (
    MAX_ENTITY_COUNT,
    MAX_ENTITY_NAME_CHARACTERS,
    MAX_PREDICATE_CHARACTERS,
    MAX_PROVIDED_ENTITIES,
    MAX_PROVIDED_RELATIONS,
    NO_PROVIDED_GRAPH,
    ProvidedEntity,
    ProvidedGraph,
    ProvidedRelation,
)
from app.graph.extraction.extractor import is_entity_key
from app.graph.extraction.names import normalize_name


def _require_name(value: str) -> str:
    if not is_entity_key(normalize_name(value)):
        raise ValueError("must be a name with a word of at least two letters, not a number")
    return value


def _require_word(value: str) -> str:
    if not value.strip():
        raise ValueError("must not be blank")
    return value


EntityName = Annotated[
    str,
    StringConstraints(min_length=1, max_length=MAX_ENTITY_NAME_CHARACTERS),
    STORABLE,
    AfterValidator(_require_name),
]
Label = Annotated[
    str, StringConstraints(min_length=1, max_length=MAX_PREDICATE_CHARACTERS), STORABLE, AfterValidator(_require_word)
]


class ProvidedEntityRequest(LargeRequestModel):
    """Entity of a chunk."""

    name: EntityName = Field(
        description="Name, 1 to 200 characters, with a word. Spellings with the same normalized form are one entity.",
        examples=["Stephen Warbeck"],
    )
    type: Label | None = Field(None, description="Type, 1 to 100 characters.", examples=["person"])
    count: int = Field(
        1, ge=1, le=MAX_ENTITY_COUNT, description="Number of times that the chunk names it, 1 to 1,000.", examples=[2]
    )


class ProvidedRelationRequest(LargeRequestModel):
    """Relation between two entities of a chunk. Its ends become entities of the chunk if they are not in the list."""

    subject: EntityName = Field(
        description="Name of the entity that the relation begins at.", examples=["Stephen Warbeck"]
    )
    predicate: Label = Field(description="The relation, 1 to 100 characters.", examples=["composed"])
    object: EntityName = Field(
        description="Name of the entity that the relation leads to, another than `subject`.",
        examples=["Shakespeare in Love"],
    )

    @model_validator(mode="after")
    def _check_ends(self) -> Self:
        if normalize_name(self.subject) == normalize_name(self.object):
            raise ValueError("subject and object must be different entities")
        return self


class ProvidedEntityOut(BaseModel):
    """Entity that came with a chunk."""

    name: str = Field(description="Name, as it was uploaded.", examples=["Stephen Warbeck"])
    type: str | None = Field(description="Type; null if none was uploaded.", examples=["person"])
    count: int = Field(description="Number of times that the chunk names it.", examples=[2])


class ProvidedRelationOut(BaseModel):
    """Relation that came with a chunk."""

    subject: str = Field(description="Entity that the relation begins at.", examples=["Stephen Warbeck"])
    predicate: str = Field(description="The relation.", examples=["composed"])
    object: str = Field(description="Entity that the relation leads to.", examples=["Shakespeare in Love"])


def check_entity_number(
    entities: Sequence[ProvidedEntityRequest], relations: Sequence[ProvidedRelationRequest]
) -> None:
    """Check that a chunk has at most 64 different entities, with the ends of its relations.

    Args:
        entities: Entities of the chunk.
        relations: Relations of the chunk.

    Raises:
        ValueError: The chunk has more entities.
    """
    names = [entity.name for entity in entities]
    names += [name for relation in relations for name in (relation.subject, relation.object)]
    number = len({normalize_name(name) for name in names})
    if number > MAX_PROVIDED_ENTITIES:
        raise ValueError(
            f"a chunk may have {MAX_PROVIDED_ENTITIES} entities with the ends of its relations, not {number}"
        )


def to_provided_graph(
    entities: Sequence[ProvidedEntityRequest], relations: Sequence[ProvidedRelationRequest]
) -> ProvidedGraph:
    """Convert the entities and relations of a chunk to the type of the documents package."""
    if not entities and not relations:
        return NO_PROVIDED_GRAPH
    return ProvidedGraph(
        tuple(ProvidedEntity(entity.name, entity.type, entity.count) for entity in entities),
        tuple(ProvidedRelation(each.subject, each.predicate, each.object) for each in relations),
    )


def to_provided_graph_fields(stored: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the entities and relations of a chunk for the response; no fields if none came with the chunk."""
    if stored is None:
        return {}
    return {"provided_entities": stored["entities"], "provided_relations": stored["relations"]}


ProvidedEntities = Annotated[list[ProvidedEntityRequest], Field(max_length=MAX_PROVIDED_ENTITIES)]
ProvidedRelations = Annotated[list[ProvidedRelationRequest], Field(max_length=MAX_PROVIDED_RELATIONS)]
