"""The nouns of tenancy: its errors, and the text form of a key."""

import hashlib
import re
import secrets
import zlib
from dataclasses import dataclass
from datetime import datetime

from app.db.models.control_plane import ApiKeyRow
from app.errors import AppError, ConflictError, NotFoundError, TooManyRequestsError

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_KEY = re.compile(r"carrel_[0-9A-Za-z]{38}")


class TenantNotFound(NotFoundError):
    """There is no such tenant."""

    code = "tenant_not_found"


class ApiKeyNotFound(NotFoundError):
    """There is no such API key."""

    code = "api_key_not_found"


class ApiKeyExpired(ConflictError):
    """That key has expired; make a new one."""

    code = "api_key_expired"


class ApiKeyReplaced(ConflictError):
    """That key has been replaced already; rotate the one that replaced it."""

    code = "api_key_replaced"


class OidcExtraMissing(AppError):
    """Tokens need `pip install carrel[oidc]`; or leave CARREL_OIDC_ISSUER out."""

    code = "oidc_extra_missing"


class TooManyFailedSignIns(TooManyRequestsError):
    """Too many failed sign-ins from this address; try again later."""

    code = "too_many_failed_sign_ins"


@dataclass(frozen=True, slots=True)
class IssuedKey:
    """A new key; ``secret`` is shown once and stored nowhere."""

    row: ApiKeyRow
    secret: str


@dataclass(frozen=True, slots=True)
class ListedKey:
    """A key and when it was used last."""

    row: ApiKeyRow
    last_used_at: datetime | None


def _encode_base62(number: int, length: int) -> str:
    digits = []
    for _ in range(length):
        number, digit = divmod(number, 62)
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits))


def generate_key() -> str:
    """Return ``carrel_`` + 32 random characters + 6 of CRC-32, by which secret scanners recognise a leaked key."""
    body = "".join(secrets.choice(_ALPHABET) for _ in range(32))
    return f"carrel_{body}{_compute_checksum(body)}"


def has_key_format(text: str) -> bool:
    """Return whether form and checksum are those of a key, which saves a look-up otherwise."""
    return _KEY.fullmatch(text) is not None and _compute_checksum(text[7:39]) == text[39:]


def hash_key(text: str) -> bytes:
    """Return the SHA-256 of a key: with 190 random bits it needs no slow hash."""
    return hashlib.sha256(text.encode()).digest()


def _compute_checksum(body: str) -> str:
    return _encode_base62(zlib.crc32(body.encode()), 6)
