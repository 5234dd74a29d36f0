"""Storage of original files: one protocol with two implementations, files on disk and S3."""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from app.errors import AppError, UnavailableError

PIECE_BYTES = 256 * 1024

_KEY = re.compile(r"[a-z0-9-]+(/[A-Za-z0-9._-]+)*")


class ObjectStoreUnavailable(UnavailableError):
    """The object store is not answering. Try again."""

    code = "object_store_unavailable"


class ObjectMissing(UnavailableError):
    """The stored original is not in the object store. Restore it from a backup or upload the file again."""

    code = "object_missing"


class InvalidObjectKey(AppError):
    """The text is not a key of the object store. Report this error with the request id."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object in a listing. Other programs may have written it, so ``key`` is not validated."""

    key: str
    modified: datetime


class ObjectStore(Protocol):
    """Store of whole objects under keys like ``tenant/document/upload``.

    A write replaces the object and is durable on return. Methods with a key raise InvalidObjectKey if ``validate_key``
    rejects the key. A cancelled call returns after its thread has stopped using the caller's files. Two parallel puts
    of one key must have the same number of bytes. A put checks the stored length afterwards and could read the length
    of the other put.
    """

    async def put(self, key: str, source: Path) -> None:
        """Store the file at ``source``, which is read and not moved.

        Raises ObjectStoreUnavailable. If ``source`` cannot be opened, its OSError is raised.
        """

    async def get(self, key: str, target: Path) -> None:
        """Write the object to the file ``target``. A failure leaves no file.

        Raises ObjectMissing, ObjectStoreUnavailable, and the OSError of ``target``.
        """

    async def get_size(self, key: str) -> int:
        """Return the length in bytes. Raises ObjectMissing, ObjectStoreUnavailable."""

    def stream(self, key: str, *, start: int, length: int) -> AsyncIterator[bytes]:
        """Yield ``length`` bytes from byte ``start``, in pieces of at most 256 KiB.

        Raises ObjectMissing. Raises ObjectStoreUnavailable, also if the object ends before ``start + length``.
        """

    async def presign(self, key: str, *, filename: str, media_type: str, inline: bool) -> str | None:
        """Return a link that downloads the object for five minutes, or None if the store has no links.

        The store is not contacted. A link to a missing object fails when it is opened.
        """

    async def delete(self, key: str) -> None:
        """Delete the object. A missing object is no error. Raises ObjectStoreUnavailable."""

    async def delete_prefix(self, prefix: str) -> int:
        """Delete all objects whose key begins with ``prefix``, which ends with ``/``, and return their number.

        Remains of incomplete writes are deleted too. Raises ObjectStoreUnavailable.
        """

    def list_objects(self, prefix: str | None = None) -> AsyncIterator[StoredObject]:
        """Yield all objects, or only objects whose key begins with ``prefix``, which ends with ``/``.

        Objects of one tenant are adjacent. No other order is guaranteed. Objects that are written or deleted during the
        listing may be missing or present. Raises ObjectStoreUnavailable.
        """

    async def abort_incomplete_uploads(self, prefix: str, *, before: datetime) -> int:
        """Remove the remains of incomplete writes that began before a time, and return their number.

        Only keys that begin with ``prefix`` count. The prefix ends with ``/``. Raises ObjectStoreUnavailable.
        """

    async def check(self) -> None:
        """Check that the store can be reached. Raises ObjectStoreUnavailable."""

    async def close(self) -> None:
        """Close connections and threads."""


def validate_key(key: str) -> str:
    """Return ``key``. Raise InvalidObjectKey if the key could leave the store's directory or be ambiguous."""
    if _KEY.fullmatch(key) is None or any(part in (".", "..") for part in key.split("/")):
        raise InvalidObjectKey
    return key


def validate_prefix(prefix: str) -> str:
    """Return ``prefix``, a key followed by a slash.

    Raise InvalidObjectKey otherwise; an empty prefix would match everything.
    """
    if not prefix.endswith("/"):
        raise InvalidObjectKey
    validate_key(prefix.removesuffix("/"))
    return prefix
