"""Where originals are kept: one protocol, two homes (files on disk, S3)."""

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
    """The object store is not answering; try again."""

    code = "object_store_unavailable"


class ObjectMissing(UnavailableError):
    """The stored original is not in the object store."""

    code = "object_missing"


class InvalidObjectKey(AppError):
    """That is not a key of the object store."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object as a list has it; whatever wrote it, ``key`` may be none of ours."""

    key: str
    modified: datetime


class ObjectStore(Protocol):
    """Stores whole objects under keys like ``tenant/document/version``; every write replaces and is durable on return.

    Every method that takes a key raises InvalidObjectKey for one that ``validate_key`` refuses. A cancelled call
    returns only after its thread has stopped using the caller's files. Two puts at a time on one key must carry the
    same number of bytes (a key names a version): the length that is checked afterwards may be the other one's.
    """

    async def put(self, key: str, source: Path) -> None:
        """Store the file at ``source`` (read, never moved).

        Raises ObjectStoreUnavailable; a ``source`` that cannot be opened raises its own OSError.
        """

    async def get(self, key: str, target: Path) -> None:
        """Write the object to the file ``target``; a failure leaves no ``target``.

        Raises ObjectMissing, ObjectStoreUnavailable; OSError of ``target`` as it is.
        """

    async def get_size(self, key: str) -> int:
        """Length in bytes. Raises ObjectMissing, ObjectStoreUnavailable."""

    def stream(self, key: str, *, start: int, length: int) -> AsyncIterator[bytes]:
        """Yield ``length`` bytes from byte ``start`` on, in pieces of at most 256 KiB.

        Raises ObjectMissing, and ObjectStoreUnavailable also where the object ends before ``start + length``.
        """

    async def presign(self, key: str, *, filename: str, media_type: str, inline: bool) -> str | None:
        """A link that downloads the object for five minutes, or None where the home has no links of its own.

        It is made without asking the store: a link to a missing object fails when it is followed.
        """

    async def delete(self, key: str) -> None:
        """Remove the object; a missing one is no error. Raises ObjectStoreUnavailable."""

    async def delete_prefix(self, prefix: str) -> int:
        """Remove every object whose key begins with ``prefix`` (ends with ``/``); returns how many.

        What unfinished writes left under it goes too. Raises ObjectStoreUnavailable.
        """

    def list_objects(self, prefix: str | None = None) -> AsyncIterator[StoredObject]:
        """Every object, or those below ``prefix`` (ends with ``/``).

        Those of one ``tenant/`` come together, in no other promised order. What is written or deleted meanwhile may be
        in it or not. Raises ObjectStoreUnavailable.
        """

    async def abort_incomplete_uploads(self, prefix: str, *, before: datetime) -> int:
        """Remove what writes left that were begun before then and never ended; returns how many.

        Of keys that begin with ``prefix`` (ends with ``/``). Raises ObjectStoreUnavailable.
        """

    async def check(self) -> None:
        """Prove that the store can be reached. Raises ObjectStoreUnavailable."""

    async def close(self) -> None:
        """Let go of connections and threads."""


def validate_key(key: str) -> str:
    """Return ``key``, or raise InvalidObjectKey where it could leave its place or mean another one."""
    if _KEY.fullmatch(key) is None or any(part in (".", "..") for part in key.split("/")):
        raise InvalidObjectKey
    return key


def validate_prefix(prefix: str) -> str:
    """Return ``prefix``, a key with a slash after it, or raise InvalidObjectKey: an empty one would mean everything."""
    if not prefix.endswith("/"):
        raise InvalidObjectKey
    validate_key(prefix.removesuffix("/"))
    return prefix
