"""Objects as files below one directory, each written beside its place, synced and renamed into it."""

import os
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from itertools import count, islice, takewhile
from pathlib import Path
from typing import BinaryIO

from app.object_store import (
    PIECE_BYTES,
    ObjectMissing,
    ObjectStoreUnavailable,
    StoredObject,
    checked_key,
    checked_prefix,
)
from app.object_store.threads import StoreThreads

THREADS = 16
COPY_BYTES = 1024 * 1024
PAGE_OBJECTS = 1000
# Not a character of any key: what begins with it is never an object.
UNFINISHED = "~"
# How long a put tries against whoever removes its directory: a failed attempt takes less than a millisecond, for it
# has copied nothing, and on a busy machine many in a row may fail.
PUT_SECONDS = 10


class FileObjectStore:
    """An object's key is its path below ``root``; directories are 0700, files 0600, both made when first needed."""

    def __init__(self, root: Path) -> None:
        self._root = root.absolute()
        self._threads = StoreThreads(THREADS)

    async def put(self, key: str, source: Path) -> None:
        place = self._place(key)
        await self._threads.run(partial(self._put, place, source))

    async def get(self, key: str, target: Path) -> None:
        place = self._place(key)
        await self._threads.run(partial(_copy_out, place, target))

    async def size(self, key: str) -> int:
        place = self._place(key)
        return await self._threads.run(lambda _: _length(place))

    async def stream(self, key: str, *, start: int, length: int) -> AsyncIterator[bytes]:
        place = self._place(key)
        source = await self._threads.run(lambda _: _open_at(place, start), discard=lambda late: late.close())
        try:
            while length > 0:
                piece = await self._threads.run(partial(_read, source, min(length, PIECE_BYTES)))
                if not piece:
                    raise ObjectStoreUnavailable("The stored original is shorter than it should be.")
                length -= len(piece)
                yield piece
        finally:
            source.close()

    async def presign(self, key: str, *, filename: str, media_type: str, inline: bool) -> str | None:
        """None: files have no links of their own."""
        del filename, media_type, inline
        checked_key(key)
        return None

    async def delete(self, key: str) -> None:
        place = self._place(key)
        await self._threads.run(lambda _: self._delete(place))

    async def delete_prefix(self, prefix: str) -> int:
        place = self._root / checked_prefix(prefix)
        return await self._threads.run(partial(self._delete_below, place))

    async def list_objects(self, prefix: str | None = None) -> AsyncIterator[StoredObject]:
        found = self._walk(self._root if prefix is None else self._root / checked_prefix(prefix))
        while page := await self._threads.run(lambda _: list(islice(found, PAGE_OBJECTS))):
            for one in page:
                yield one

    async def discard_unfinished(self, prefix: str, *, before: datetime) -> int:
        place = self._root / checked_prefix(prefix)
        return await self._threads.run(lambda _: self._discard_unfinished(place, before))

    async def check(self) -> None:
        await self._threads.run(lambda _: self._check())

    async def close(self) -> None:
        await self._threads.close()

    def _place(self, key: str) -> Path:
        return self._root / checked_key(key)

    def _put(self, place: Path, source: Path, stop: threading.Event) -> None:
        end = time.monotonic() + PUT_SECONDS
        with source.open("rb") as readable:
            for attempt in takewhile(lambda _: time.monotonic() < end, count()):
                # A delete may take the directory away between its making and its first file: make it again.
                with _translated(), suppress(FileNotFoundError):
                    if attempt:
                        readable.seek(0)
                    self._make_directory(place.parent)
                    _write(readable, place, stop)
                    self._sync_up(place.parent)
                    return
        raise ObjectStoreUnavailable

    def _make_directory(self, directory: Path) -> None:
        """Like ``mkdir -p`` with mode 0700 throughout; what is above the root gets the usual one."""
        if directory.is_dir():
            return
        if directory != self._root:
            self._make_directory(directory.parent)
        else:
            directory.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            directory.mkdir(mode=0o700)
            if directory == self._root:
                _sync_directory(directory.parent)

    def _sync_up(self, directory: Path) -> None:
        """Sync every entry from ``directory`` up to the root: free where another put has just done it."""
        _sync_directory(directory)
        while directory != self._root:
            directory = directory.parent
            _sync_directory(directory)

    def _delete(self, place: Path) -> None:
        with _translated():
            with suppress(FileNotFoundError, NotADirectoryError):
                place.unlink()
                _sync_directory(place.parent)
            self._remove_empty(place.parent)

    def _delete_below(self, place: Path, stop: threading.Event) -> int:
        count = 0
        with _translated():
            for folder, _, names in os.walk(place, topdown=False, onerror=_unless_missing):
                for name in names:
                    if stop.is_set():
                        return count
                    with suppress(FileNotFoundError):
                        Path(folder, name).unlink()
                        count += not name.startswith(UNFINISHED)
                if names:
                    with suppress(FileNotFoundError):
                        _sync_directory(Path(folder))
                with suppress(OSError):
                    Path(folder).rmdir()
            self._remove_empty(place)
        return count

    def _walk(self, below: Path) -> Iterator[StoredObject]:
        return (found for found in self._files(below) if UNFINISHED not in found.key)

    def _files(self, below: Path) -> Iterator[StoredObject]:
        with _translated():
            for folder, _, names in os.walk(below, onerror=_unless_missing):
                for place in (Path(folder, name) for name in names):
                    with suppress(FileNotFoundError):
                        modified = datetime.fromtimestamp(place.lstat().st_mtime, UTC)
                        yield StoredObject(place.relative_to(self._root).as_posix(), modified)

    def _discard_unfinished(self, below: Path, before: datetime) -> int:
        count = 0
        for found in self._files(below):
            place = self._root / found.key
            if place.name.startswith(UNFINISHED) and found.modified < before:
                with _translated():
                    place.unlink(missing_ok=True)
                    self._remove_empty(place.parent)
                count += 1
        return count

    def _remove_empty(self, directory: Path) -> None:
        """Remove ``directory`` and its parents up to the root while they are empty; rmdir itself refuses a full one."""
        while directory != self._root:
            try:
                directory.rmdir()
            except FileNotFoundError:
                pass
            except OSError:
                return
            directory = directory.parent

    def _check(self) -> None:
        with _translated():
            self._make_directory(self._root)
            with tempfile.TemporaryFile(dir=self._root) as probe:
                probe.write(b"probe")
                probe.flush()


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        raise ObjectStoreUnavailable from exc


def _unless_missing(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def _sync_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _write(readable: BinaryIO, place: Path, stop: threading.Event) -> None:
    handle, name = tempfile.mkstemp(prefix=UNFINISHED, dir=place.parent)
    unfinished = Path(name)
    try:
        with os.fdopen(handle, "wb") as writable:
            while (piece := readable.read(COPY_BYTES)) and not stop.is_set():
                writable.write(piece)
            writable.flush()
            os.fsync(handle)
        if not stop.is_set():
            unfinished.replace(place)
    finally:
        unfinished.unlink(missing_ok=True)


def _open(place: Path) -> BinaryIO:
    try:
        return place.open("rb")
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as exc:
        raise ObjectMissing from exc
    except OSError as exc:
        raise ObjectStoreUnavailable from exc


def _open_at(place: Path, start: int) -> BinaryIO:
    source = _open(place)
    source.seek(start)
    return source


def _length(place: Path) -> int:
    with _open(place) as source:
        return os.fstat(source.fileno()).st_size


def _read(source: BinaryIO, length: int, _: threading.Event) -> bytes:
    with _translated():
        return source.read(length)


def _copy_out(place: Path, target: Path, stop: threading.Event) -> None:
    with _open(place) as source:
        try:
            with target.open("wb") as writable:
                while (piece := _read(source, COPY_BYTES, stop)) and not stop.is_set():
                    writable.write(piece)
        except BaseException:
            target.unlink(missing_ok=True)
            raise
        if stop.is_set():
            target.unlink(missing_ok=True)
