"""Which files ``carrel upload`` means, and what a knowledge base has of them already (no printing here)."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from app.errors import InvalidInput

PIECE_BYTES = 1024 * 1024


class BadPaths(InvalidInput):
    """The paths cannot be uploaded together."""

    code = "bad_paths"


@dataclass(frozen=True, slots=True)
class Found:
    """A file and its external id: its path below the directory that was named."""

    path: Path
    external_id: str


@dataclass(frozen=True, slots=True)
class Selection:
    """Globs over external ids and names: with ``include`` only those, without what ``exclude`` says.

    Of a directory the hidden files are left out, and the kinds that the service cannot read; of files that are named
    themselves, nothing is.
    """

    include: Sequence[str] = ()
    exclude: Sequence[str] = ()
    extensions: frozenset[str] = frozenset()
    prefix: str = ""

    def files(self, paths: Iterable[Path]) -> list[Found]:
        """In the order of their paths. Raises BadPaths where one is missing or two would be the same document."""
        found: dict[str, Found] = {}
        for path in paths:
            for one in self._below(path):
                there = found.setdefault(one.external_id, one)
                if there.path.resolve() != one.path.resolve():
                    both = f"{there.path} and {one.path} would both be {one.external_id!r}"
                    raise BadPaths(f"{both}; upload them apart, with --prefix")
        return list(found.values())

    def _below(self, path: Path) -> Iterator[Found]:
        if path.is_file():
            yield Found(path, self.prefix + path.name)
        elif path.is_dir():
            for file in sorted(path.rglob("*")):
                inner = file.relative_to(path)
                hidden = any(part.startswith(".") for part in inner.parts)
                if not hidden and file.is_file() and self._wanted(inner):
                    yield Found(file, self.prefix + inner.as_posix())
        else:
            raise BadPaths(f"{path} is not there")

    def _wanted(self, inner: Path) -> bool:
        name = inner.as_posix()
        if any(fnmatch(name, glob) or fnmatch(inner.name, glob) for glob in self.exclude):
            return False
        if self.include:
            return any(fnmatch(name, glob) or fnmatch(inner.name, glob) for glob in self.include)
        return not self.extensions or inner.suffix.lower().removeprefix(".") in self.extensions


@dataclass(frozen=True, slots=True)
class Known:
    """What is there: the digest by external id, and the external id, if any, by digest."""

    by_external_id: Mapping[str, str]
    by_digest: Mapping[str, str | None]

    def verdict(self, external_id: str, digest: str) -> str:
        """``upload``, ``unchanged``, or ``duplicate`` where the same bytes are there under another id."""
        if self.by_external_id.get(external_id) == digest:
            return "unchanged"
        if external_id not in self.by_external_id and digest in self.by_digest:
            return "duplicate"
        return "upload"


def digest_of(path: Path) -> str:
    """SHA-256 of a file, in hex. Raises OSError."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            digest.update(piece)
    return digest.hexdigest()
