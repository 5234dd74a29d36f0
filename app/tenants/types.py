"""Types of tenants: errors, and the text form of an API key."""

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
    """The tenant does not exist. Check the id of the tenant."""

    code = "tenant_not_found"


class ApiKeyNotFound(NotFoundError):
    """The API key does not exist. Check the id of the key."""

    code = "api_key_not_found"


class ApiKeyExpired(ConflictError):
    """The API key has expired and cannot be rotated. Create a new one."""

    code = "api_key_expired"


class ApiKeyReplaced(ConflictError):
    """The API key was rotated before. Rotate its replacement."""

    code = "api_key_replaced"


class OidcExtraMissing(AppError):
    """Tokens need an extra package. Run `pip install carrel[oidc]`, or remove CARREL_OIDC_ISSUER."""

    code = "oidc_extra_missing"


class TooManyFailedSignIns(TooManyRequestsError):
    """Too many sign-ins from this address have failed. Try again later."""

    code = "too_many_failed_sign_ins"


@dataclass(frozen=True, slots=True)
class IssuedKey:
    """A new key; ``secret`` is shown once and stored nowhere."""

    row: ApiKeyRow
    secret: str


@dataclass(frozen=True, slots=True)
class ListedKey:
    """A key with the time of its last use."""

    row: ApiKeyRow
    last_used_at: datetime | None


def _encode_base62(number: int, length: int) -> str:
    digits = []
    for _ in range(length):
        number, digit = divmod(number, 62)
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits))


def generate_key() -> str:
    """Return a new key: ``carrel_``, 32 random characters, and a CRC-32 as 6 characters for secret scanners."""
    body = "".join(secrets.choice(_ALPHABET) for _ in range(32))
    return f"carrel_{body}{_compute_checksum(body)}"


def has_key_format(text: str) -> bool:
    """Return whether a text has the format and checksum of a key. Other texts need no lookup."""
    return _KEY.fullmatch(text) is not None and _compute_checksum(text[7:39]) == text[39:]


def hash_key(text: str) -> bytes:
    """Return the SHA-256 of a key. Its 190 random bits need no slow hash."""
    return hashlib.sha256(text.encode()).digest()


def _compute_checksum(body: str) -> str:
    return _encode_base62(zlib.crc32(body.encode()), 6)
