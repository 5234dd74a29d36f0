"""Objects as files below one directory. Each file is written under a temporary name, synced and renamed."""

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
    validate_key,
    validate_prefix,
)
from app.object_store.threads import StoreThreadPool

THREADS = 16
COPY_BYTES = 1024 * 1024
PAGE_OBJECTS = 1000
# No key contains this character, so a file whose name begins with it is never an object.
UNFINISHED_PREFIX = "~"
# The time for which a put repeats its attempt while parallel deletes remove the directory. A failed attempt takes less
# than a millisecond, because it copies nothing. On a busy machine, many attempts in a row can fail.
PUT_TIMEOUT_SECONDS = 10


class FileObjectStore:
    """Store in which an object's key is its path below ``root``.

    Directories have mode 0700 and files have mode 0600.
    """

    def __init__(self, root: Path) -> None:
        self._root = root.absolute()
        self._threads = StoreThreadPool(THREADS)

    async def put(self, key: str, source: Path) -> None:
        path = self._resolve_path(key)
        await self._threads.run(partial(self._put, path, source))

    async def get(self, key: str, target: Path) -> None:
        path = self._resolve_path(key)
        await self._threads.run(partial(_copy_to, path, target))

    async def get_size(self, key: str) -> int:
        path = self._resolve_path(key)
        return await self._threads.run(lambda _: _get_size(path))

    async def stream(self, key: str, *, start: int, length: int) -> AsyncIterator[bytes]:
        path = self._resolve_path(key)
        source = await self._threads.run(lambda _: _open_at(path, start), discard=lambda late: late.close())
        try:
            while length > 0:
                piece = await self._threads.run(partial(_read, source, min(length, PIECE_BYTES)))
                if not piece:
                    raise ObjectStoreUnavailable(
                        "The stored original is too short. Restore it or upload the file again."
                    )
                length -= len(piece)
                yield piece
        finally:
            source.close()

    async def presign(self, key: str, *, filename: str, media_type: str, inline: bool) -> str | None:
        """Return None, because files have no links."""
        del filename, media_type, inline
        validate_key(key)
        return None

    async def delete(self, key: str) -> None:
        path = self._resolve_path(key)
        await self._threads.run(lambda _: self._delete(path))

    async def delete_prefix(self, prefix: str) -> int:
        directory = self._root / validate_prefix(prefix)
        return await self._threads.run(partial(self._delete_directory, directory))

    async def list_objects(self, prefix: str | None = None) -> AsyncIterator[StoredObject]:
        stored_objects = self._iterate_objects(self._root if prefix is None else self._root / validate_prefix(prefix))
        while page := await self._threads.run(lambda _: list(islice(stored_objects, PAGE_OBJECTS))):
            for stored_object in page:
                yield stored_object

    async def abort_incomplete_uploads(self, prefix: str, *, before: datetime) -> int:
        directory = self._root / validate_prefix(prefix)
        return await self._threads.run(lambda _: self._remove_unfinished(directory, before))

    async def check(self) -> None:
        await self._threads.run(lambda _: self._check())

    async def close(self) -> None:
        await self._threads.close()

    def _resolve_path(self, key: str) -> Path:
        return self._root / validate_key(key)

    def _put(self, path: Path, source: Path, stop: threading.Event) -> None:
        deadline = time.monotonic() + PUT_TIMEOUT_SECONDS
        with source.open("rb") as readable:
            for attempt in takewhile(lambda _: time.monotonic() < deadline, count()):
                # A delete can remove the directory between its creation and the first file, so the directory is created
                # again.
                with _translate_errors(), suppress(FileNotFoundError):
                    if attempt:
                        readable.seek(0)
                    self._create_directory(path.parent)
                    _write(readable, path, stop)
                    self._sync_up(path.parent)
                    return
        raise ObjectStoreUnavailable

    def _create_directory(self, directory: Path) -> None:
        """Create a directory and its parents with mode 0700. Directories above the root get the default mode."""
        if directory.is_dir():
            return
        if directory != self._root:
            self._create_directory(directory.parent)
        else:
            directory.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            directory.mkdir(mode=0o700)
            if directory == self._root:
                _sync_directory(directory.parent)

    def _sync_up(self, directory: Path) -> None:
        """Sync each directory from ``directory`` up to the root.

        A directory that another put has just synced costs nothing.
        """
        _sync_directory(directory)
        while directory != self._root:
            directory = directory.parent
            _sync_directory(directory)

    def _delete(self, path: Path) -> None:
        with _translate_errors():
            with suppress(FileNotFoundError, NotADirectoryError):
                path.unlink()
                _sync_directory(path.parent)
            self._remove_empty(path.parent)

    def _delete_directory(self, directory: Path, stop: threading.Event) -> int:
        count = 0
        with _translate_errors():
            for folder, _, names in os.walk(directory, topdown=False, onerror=_raise_unless_missing):
                for name in names:
                    if stop.is_set():
                        return count
                    with suppress(FileNotFoundError):
                        Path(folder, name).unlink()
                        count += not name.startswith(UNFINISHED_PREFIX)
                if names:
                    with suppress(FileNotFoundError):
                        _sync_directory(Path(folder))
                with suppress(OSError):
                    Path(folder).rmdir()
            self._remove_empty(directory)
        return count

    def _iterate_objects(self, directory: Path) -> Iterator[StoredObject]:
        return (
            stored_object
            for stored_object in self._iterate_files(directory)
            if UNFINISHED_PREFIX not in stored_object.key
        )

    def _iterate_files(self, directory: Path) -> Iterator[StoredObject]:
        with _translate_errors():
            for folder, _, names in os.walk(directory, onerror=_raise_unless_missing):
                for path in (Path(folder, name) for name in names):
                    with suppress(FileNotFoundError):
                        modified = datetime.fromtimestamp(path.lstat().st_mtime, UTC)
                        yield StoredObject(path.relative_to(self._root).as_posix(), modified)

    def _remove_unfinished(self, directory: Path, before: datetime) -> int:
        count = 0
        for stored_object in self._iterate_files(directory):
            path = self._root / stored_object.key
            if path.name.startswith(UNFINISHED_PREFIX) and stored_object.modified < before:
                with _translate_errors():
                    path.unlink(missing_ok=True)
                    self._remove_empty(path.parent)
                count += 1
        return count

    def _remove_empty(self, directory: Path) -> None:
        """Remove ``directory`` and its parents up to the root while they are empty."""
        while directory != self._root:
            try:
                directory.rmdir()
            except FileNotFoundError:
                pass
            except OSError:
                return
            directory = directory.parent

    def _check(self) -> None:
        with _translate_errors():
            self._create_directory(self._root)
            with tempfile.TemporaryFile(dir=self._root) as probe:
                probe.write(b"probe")
                probe.flush()


@contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        raise ObjectStoreUnavailable from exc


def _raise_unless_missing(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def _sync_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _write(readable: BinaryIO, path: Path, stop: threading.Event) -> None:
    handle, name = tempfile.mkstemp(prefix=UNFINISHED_PREFIX, dir=path.parent)
    unfinished = Path(name)
    try:
        with os.fdopen(handle, "wb") as writable:
            while (piece := readable.read(COPY_BYTES)) and not stop.is_set():
                writable.write(piece)
            writable.flush()
            os.fsync(handle)
        if not stop.is_set():
            unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _open(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as exc:
        raise ObjectMissing from exc
    except OSError as exc:
        raise ObjectStoreUnavailable from exc


def _open_at(path: Path, start: int) -> BinaryIO:
    source = _open(path)
    source.seek(start)
    return source


def _get_size(path: Path) -> int:
    with _open(path) as source:
        return os.fstat(source.fileno()).st_size


def _read(source: BinaryIO, length: int, _: threading.Event) -> bytes:
    with _translate_errors():
        return source.read(length)


def _copy_to(path: Path, target: Path, stop: threading.Event) -> None:
    with _open(path) as source:
        try:
            with target.open("wb") as writable:
                while (piece := _read(source, COPY_BYTES, stop)) and not stop.is_set():
                    writable.write(piece)
        except BaseException:
            target.unlink(missing_ok=True)
            raise
        if stop.is_set():
            target.unlink(missing_ok=True)
