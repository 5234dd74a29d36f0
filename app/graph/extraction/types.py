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
