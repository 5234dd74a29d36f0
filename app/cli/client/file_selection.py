"""Selection of the files that ``carrel upload`` sends: files that match globs and are not yet stored."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from app.errors import InvalidInputError

READ_BYTES = 1024 * 1024


class InvalidPaths(InvalidInputError):
    """The paths cannot be uploaded together."""

    code = "invalid_paths"


@dataclass(frozen=True, slots=True)
class LocalFile:
    """File with its external ID, which is the path below the given directory."""

    path: Path
    external_id: str


@dataclass(frozen=True, slots=True)
class FileSelection:
    """Selection of files in directories, by globs over their paths and names.

    A file must match a glob of ``include`` and no glob of ``exclude``. If ``include`` is empty, the file must have one
    of the ``extensions`` that the service can parse. Hidden files are left out. A path that names a file
    directly is always selected.
    """

    include: Sequence[str] = ()
    exclude: Sequence[str] = ()
    extensions: frozenset[str] = frozenset()
    prefix: str = ""

    def list_files(self, paths: Iterable[Path]) -> list[LocalFile]:
        """Return the selected files in the order of the paths.

        Args:
            paths: Files and directories.

        Raises:
            InvalidPaths: A path does not exist, or two files have the same external ID.
        """
        files: dict[str, LocalFile] = {}
        for path in paths:
            for file in self._iterate_files(path):
                existing = files.setdefault(file.external_id, file)
                if existing.path.resolve() != file.path.resolve():
                    message = f"{existing.path} and {file.path} have the same external ID {file.external_id!r}"
                    raise InvalidPaths(f"{message}; upload each directory separately, with --prefix")
        return list(files.values())

    def _iterate_files(self, path: Path) -> Iterator[LocalFile]:
        if path.is_file():
            yield LocalFile(path, self.prefix + path.name)
        elif path.is_dir():
            for file in sorted(path.rglob("*")):
                relative_path = file.relative_to(path)
                is_hidden = any(part.startswith(".") for part in relative_path.parts)
                if not is_hidden and file.is_file() and self._is_selected(relative_path):
                    yield LocalFile(file, self.prefix + relative_path.as_posix())
        else:
            raise InvalidPaths(f"{path} does not exist; check the path")

    def _is_selected(self, relative_path: Path) -> bool:
        name = relative_path.as_posix()
        if any(fnmatch(name, glob) or fnmatch(relative_path.name, glob) for glob in self.exclude):
            return False
        if self.include:
            return any(fnmatch(name, glob) or fnmatch(relative_path.name, glob) for glob in self.include)
        return not self.extensions or relative_path.suffix.lower().removeprefix(".") in self.extensions


@dataclass(frozen=True, slots=True)
class RemoteIndex:
    """Index of the stored documents: the SHA-256 by external ID, and the external ID (or None) by SHA-256."""

    by_external_id: Mapping[str, str]
    by_digest: Mapping[str, str | None]

    def decide(self, external_id: str, digest: str) -> str:
        """Return ``upload``, ``unchanged``, or ``duplicate`` if the same bytes are stored under another external ID."""
        if self.by_external_id.get(external_id) == digest:
            return "unchanged"
        if external_id not in self.by_external_id and digest in self.by_digest:
            return "duplicate"
        return "upload"


def compute_sha256(path: Path) -> str:
    """Return the SHA-256 of a file as a hexadecimal string. Raises OSError."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(READ_BYTES):
            digest.update(piece)
    return digest.hexdigest()
