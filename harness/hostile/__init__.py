"""Files that mean harm, made in code: bombs, loops, links, lies and mutated copies of real files."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OCTET_STREAM = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class HostileFile:
    """One upload; ``label`` says how it was made, and with it and the seed it can be made again."""

    family: str
    label: str
    name: str
    content: bytes
    declared_type: str = OCTET_STREAM


def iter_sample_files() -> Iterator[tuple[str, bytes]]:
    """The sample files of the repository, by name."""
    for folder in (ROOT / "samples", ROOT / "tests" / "samples"):
        for path in sorted(folder.iterdir()):
            if path.is_file() and path.stat().st_size:
                yield path.name, path.read_bytes()
