"""Types of the extraction of entities."""

from dataclasses import dataclass

MAX_NAME_CHARACTERS = 200
"""Maximum length of a name and of its normalized form."""


@dataclass(frozen=True, slots=True)
class EntityMention:
    """An entity in one chunk.

    Attributes:
        name: Name as it is written, in NFC, at most ``MAX_NAME_CHARACTERS`` long.
        key_text: Normalized name, by which chunks name the same entity, at most ``MAX_NAME_CHARACTERS`` long.
        count: Weight of the entity in the chunk, as a number of occurrences, at least 1.
        kind: Source of the entity: ``title``, ``source``, ``heading``, ``name``, ``identifier``, ``quoted``,
            ``metadata``, ``given``, or the kind of a plugin.
    """

    name: str
    key_text: str
    count: int
    kind: str


@dataclass(frozen=True, slots=True)
class Entity:
    """An entity that the extractor of a plugin finds in a chunk.

    Attributes:
        name: Name as it is written, at most 200 characters long.
        kind: Type of the entity, such as ``person``: small letters, digits and ``_``, at most 32 characters.
        count: Number of occurrences in the chunk, from 1 to 32,767.
    """

    name: str
    kind: str = "entity"
    count: int = 1
