"""Which files ``carrel upload`` means, and what a knowledge base has of them already (no printing here)."""

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
    """A file and its external id: its path below the directory that was named."""

    path: Path
    external_id: str


@dataclass(frozen=True, slots=True)
class FileSelection:
    """Globs over external ids and names: with ``include`` only those, without what ``exclude`` says.

    Of a directory the hidden files are left out, and the kinds that the service cannot read; of files that are named
    themselves, nothing is.
    """

    include: Sequence[str] = ()
    exclude: Sequence[str] = ()
    extensions: frozenset[str] = frozenset()
    prefix: str = ""

    def list_files(self, paths: Iterable[Path]) -> list[LocalFile]:
        """In the order of their paths. Raises InvalidPaths where one is missing or two would be the same document."""
        files: dict[str, LocalFile] = {}
        for path in paths:
            for file in self._iterate_files(path):
                existing = files.setdefault(file.external_id, file)
                if existing.path.resolve() != file.path.resolve():
                    message = f"{existing.path} and {file.path} would both be {file.external_id!r}"
                    raise InvalidPaths(f"{message}; upload them apart, with --prefix")
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
            raise InvalidPaths(f"{path} is not there")

    def _is_selected(self, relative_path: Path) -> bool:
        name = relative_path.as_posix()
        if any(fnmatch(name, glob) or fnmatch(relative_path.name, glob) for glob in self.exclude):
            return False
        if self.include:
            return any(fnmatch(name, glob) or fnmatch(relative_path.name, glob) for glob in self.include)
        return not self.extensions or relative_path.suffix.lower().removeprefix(".") in self.extensions


@dataclass(frozen=True, slots=True)
class RemoteIndex:
    """The documents of the knowledge base: the digest by external id, and the external id, if any, by digest."""

    by_external_id: Mapping[str, str]
    by_digest: Mapping[str, str | None]

    def decide(self, external_id: str, digest: str) -> str:
        """``upload``, ``unchanged``, or ``duplicate`` where the same bytes are there under another id."""
        if self.by_external_id.get(external_id) == digest:
            return "unchanged"
        if external_id not in self.by_external_id and digest in self.by_digest:
            return "duplicate"
        return "upload"


def compute_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hex. Raises OSError."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(READ_BYTES):
            digest.update(piece)
    return digest.hexdigest()
