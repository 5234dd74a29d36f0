"""Keys of entities: hashes of their normalized names, so that no worker allocates keys."""

import hashlib
from uuid import UUID

KEY_BYTES = 4


def compute_entity_key(kb_id: UUID, key_text: str) -> int:
    """Return the key of an entity: a hash of its normalized name, salted with the knowledge base.

    The key stays the same in every search index of the knowledge base, so corrections outlive a reindex. Two names
    share a key with a probability of 1 in 4 billion.

    Args:
        kb_id: The knowledge base.
        key_text: Normalized name of the entity.

    Returns:
        A signed integer of 32 bits.
    """
    digest = hashlib.blake2b(key_text.encode("utf-8", "surrogatepass"), digest_size=KEY_BYTES, key=kb_id.bytes)
    return int.from_bytes(digest.digest(), "big", signed=True)
