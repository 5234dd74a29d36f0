"""Ids: UUIDv7 for new objects, UUIDv8 for derived ones, and TypeIDs (prefix and base32) in the API."""

import hashlib
from datetime import UTC, datetime
from uuid import UUID

import uuid_utils.compat
from typeid import TypeID, base32
from typeid.core.errors import TypeIDException

# "dlv" is a webhook delivery.
PREFIXES = (
    "ten", "key", "kb", "doc", "job", "del", "evt", "whk", "chk", "nod", "req", "bnd", "dlv", "sqlv", "file", "vsfb"
)  # fmt: skip


def generate_id() -> UUID:
    """Return a new UUIDv7, which sorts by its time of creation."""
    return uuid_utils.compat.uuid7()


def get_creation_time(id: UUID) -> datetime:
    """Return the time at which ``generate_id`` made an id: a UUIDv7 begins with the milliseconds."""
    return datetime.fromtimestamp((id.int >> 80) / 1000, UTC)


def derive_id(*parts: object) -> UUID:
    """Return a UUIDv8 made from the parts. The same parts give the same id (RFC 9562, section 5.8)."""
    digest = bytearray(hashlib.sha256("\0".join(map(str, parts)).encode()).digest()[:16])
    digest[6] = digest[6] & 0x0F | 0x80
    digest[8] = digest[8] & 0x3F | 0x80
    return UUID(bytes=bytes(digest))


def encode_id(prefix: str, value: UUID) -> str:
    """Return an id for the API, for example ``doc_01h455vb4pex5vsknk084sn02q``."""
    return f"{prefix}_{base32.encode(value.bytes)}"


def decode_id(prefix: str, text: str) -> UUID | None:
    """Return the UUID of an id of the API, or None.

    Args:
        prefix: Prefix that the id must have, for example ``doc``.
        text: The id.
    """
    if not text.startswith(prefix + "_"):
        return None
    try:
        parsed = TypeID.from_string(text)
    except TypeIDException:
        return None
    return UUID(bytes=parsed.uuid.bytes) if parsed.prefix == prefix else None
