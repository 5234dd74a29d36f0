"""The nouns of tenancy: its errors, and the text form of a key."""

import hashlib
import re
import secrets
import zlib

from app.errors import NotFound

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_KEY = re.compile(r"carrel_[0-9A-Za-z]{38}")


class TenantNotFound(NotFound):
    """There is no such tenant."""

    code = "tenant_not_found"


class ApiKeyNotFound(NotFound):
    """There is no such API key."""

    code = "api_key_not_found"


def _base62(number: int, length: int) -> str:
    digits = []
    for _ in range(length):
        number, digit = divmod(number, 62)
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits))


def new_key() -> str:
    """``carrel_`` + 32 random characters + 6 of CRC-32: secret scanners can tell a leaked key from a lookalike."""
    body = "".join(secrets.choice(_ALPHABET) for _ in range(32))
    return f"carrel_{body}{_checksum(body)}"


def looks_like_key(text: str) -> bool:
    """True when form and checksum are those of a key; saves a look-up for anything else."""
    return _KEY.fullmatch(text) is not None and _checksum(text[7:39]) == text[39:]


def key_hash(text: str) -> bytes:
    """SHA-256: a key has 190 random bits, so a slow hash would guard nothing."""
    return hashlib.sha256(text.encode()).digest()


def _checksum(body: str) -> str:
    return _base62(zlib.crc32(body.encode()), 6)
