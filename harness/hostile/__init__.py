"""Hostile files, generated in code: bombs, loops, links, false claims and mutated copies of real files."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OCTET_STREAM = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class HostileFile:
    """One hostile upload. ``label`` describes how it was generated; with the seed, it can be generated again."""

    family: str
    label: str
    name: str
    content: bytes
    declared_type: str = OCTET_STREAM


def iter_sample_files() -> Iterator[tuple[str, bytes]]:
    """Yield the sample files of the repository with their names."""
    for folder in (ROOT / "samples", ROOT / "tests" / "samples"):
        for path in sorted(folder.iterdir()):
            if path.is_file() and path.stat().st_size:
                yield path.name, path.read_bytes()
