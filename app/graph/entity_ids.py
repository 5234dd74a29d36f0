"""Public ids of entities: the key of an entity as ``ent_`` and 8 hexadecimal digits."""

import re

PREFIX = "ent_"
_ENTITY_ID = re.compile(r"ent_([0-9a-f]{8})", re.ASCII)
_KEY_RANGE = 1 << 32
_MAX_KEY = (1 << 31) - 1


def encode_entity_id(key: int) -> str:
    """Return the public id of the entity with a key, a signed integer of 32 bits."""
    return f"{PREFIX}{key % _KEY_RANGE:08x}"


def decode_entity_id(entity_id: str) -> int | None:
    """Return the key of a public id, or None if the text is no id of an entity."""
    match = _ENTITY_ID.fullmatch(entity_id)
    if match is None:
        return None
    key = int(match[1], 16)
    return key if key <= _MAX_KEY else key - _KEY_RANGE
