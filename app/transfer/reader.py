"""The sandboxed program that reads an archive's documents: every line is checked here before the service sees it.

A request comes with four open files: text, nodes, pages and chunks. The answer repeats each line that is right, with a
letter before it: ``n`` for a node, ``p`` for a page, ``c`` for a chunk. The last line is ``d`` with the number of
characters of the text, or ``f`` with the reason why the document is refused.
"""

import codecs
import json
import os
import resource
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import IO, Any

from app.ingestion.types import NodeKind
from app.sandbox.channel import Channel
from app.sandbox.confinement import Limits
from app.transfer.records import (
    CHUNKS,
    NODES,
    PAGES,
    ChunkRecord,
    NodeRecord,
    PageRecord,
    Record,
    read_lines,
    read_record,
)
from app.transfer.types import (
    MAX_CHUNK_CHARACTERS,
    MAX_OVERLAP,
    MOST_CHUNKS,
    MOST_NODES,
    ArchiveDamaged,
    ArchiveTooLarge,
)

FREE_OVERLAP = 1_000_000
# A character has at most four bytes, but one ligature is normalized to eighteen letters.
TOKENS_A_CHARACTER = 32
BATCH_BYTES = 32 * 1024
_PIECE = 256 * 1024

Path = tuple[int, ...]


def main() -> None:
    """Answer requests until the service ends."""
    channel = Channel()
    setup = channel.setup
    channel.confine(Limits(memory_mb=setup["memory_mb"]))
    for request, descriptors in channel.requests():
        _limit_cpu(setup["cpu_seconds"])
        with ExitStack() as stack:
            files = [stack.enter_context(os.fdopen(one, "rb", closefd=False)) for one in descriptors]
            _answer(channel, request, files)


def _limit_cpu(seconds: int) -> None:
    """Raise the soft limit alone, so that the next request can raise it again."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = int(used.ru_utime + used.ru_stime) + seconds + 1
    resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.RLIM_INFINITY))


def _answer(channel: Channel, request: dict[str, Any], files: Sequence[IO[bytes]]) -> None:
    held = bytearray()
    try:
        for line in _checked(request, files):
            held += line
            if len(held) >= BATCH_BYTES:
                channel.write(bytes(held))
                held.clear()
    except (ArchiveDamaged, ArchiveTooLarge) as exc:
        held += _last("f", {"code": type(exc).__name__, "message": exc.message[:500]})
    except MemoryError:
        held = bytearray(_last("f", {"code": "ArchiveTooLarge", "message": "A document takes too much memory."}))
    channel.write(bytes(held))


def _last(letter: str, values: dict[str, Any]) -> bytes:
    return letter.encode() + json.dumps(values).encode("ascii") + b"\n"


def _checked(request: dict[str, Any], files: Sequence[IO[bytes]]) -> Iterator[bytes]:
    text, nodes, pages, chunks = files
    characters = count_characters(text, most=request["max_characters"])
    places = Places(characters)
    for at, line in read_lines(nodes, NODES, most=MOST_NODES):
        node = read_record(NodeRecord, line, at)
        places.add(node, at)
        yield _line("n", node)
    places.require_root()
    known: set[int] = set()
    for at, line in read_lines(pages, PAGES, most=MOST_CHUNKS):
        page = read_record(PageRecord, line, at)
        if page.page in known:
            raise ArchiveDamaged(f"{at}: the page comes twice.")
        known.add(page.page)
        check_page(page, characters, at)
        yield _line("p", page)
    check = ChunkCheck(places, characters, frozenset(request["pictures"]))
    for at, line in read_lines(chunks, CHUNKS, most=MOST_CHUNKS):
        chunk = read_record(ChunkRecord, line, at)
        check.add(chunk, at)
        yield _line("c", chunk)
    if not check.count:
        raise ArchiveDamaged("A document of the archive has no chunks.")
    yield _last("d", {"characters": characters})


def _line(letter: str, record: Record) -> bytes:
    return letter.encode() + record.encoded()


def count_characters(file: IO[bytes], *, most: int) -> int:
    """Count the characters of a text without holding it. Raises ArchiveDamaged, ArchiveTooLarge."""
    decoder, found, is_last = codecs.getincrementaldecoder("utf-8")(), 0, False
    while not is_last:
        piece = file.read(_PIECE)
        is_last = not piece
        try:
            text = decoder.decode(piece, is_last)
        except UnicodeError as exc:
            raise ArchiveDamaged("A text of the archive is not UTF-8.") from exc
        if "\0" in text:
            raise ArchiveDamaged("A text of the archive has the character U+0000.")
        found += len(text)
        if found > most:
            raise ArchiveTooLarge(f"A text of the archive has more than {most} characters.")
    return found


class Places:
    """The paths of a tree's nodes, each behind its parent's."""

    def __init__(self, characters: int) -> None:
        self._characters = characters
        self._paths: set[Path] = set()

    def __contains__(self, path: Path) -> bool:
        return path in self._paths

    def add(self, node: NodeRecord, at: str) -> None:
        """Take the next node. Raises ArchiveDamaged."""
        is_wrong = node.path in self._paths or not node.start <= node.end <= self._characters
        if is_wrong or (bool(node.path) and node.path[:-1] not in self._paths) or (not node.path and self._paths):
            raise ArchiveDamaged(f"{at}: a tree of the archive does not hang together.")
        if not node.path and node.kind is not NodeKind.DOCUMENT:
            raise ArchiveDamaged(f"{at}: a tree of the archive has no root.")
        self._paths.add(node.path)

    def require_root(self) -> None:
        """Raises ArchiveDamaged for a tree without nodes."""
        if not self._paths:
            raise ArchiveDamaged("A tree of the archive has no root.")


def check_page(page: PageRecord, characters: int, at: str) -> None:
    """Raises ArchiveDamaged for lines that are not of the text."""
    ranges = zip(page.lines[::6], page.lines[1::6], strict=False)
    if len(page.lines) % 6 or any(not 0 <= start <= end <= characters for start, end in ranges):
        raise ArchiveDamaged(f"{at}: a printed page of the archive is not of its text.")


class ChunkCheck:
    """Compares chunks with their document, one by one."""

    def __init__(self, places: Places, characters: int, pictures: frozenset[int]) -> None:
        self._places, self._characters, self._pictures = places, characters, pictures
        self._left = FREE_OVERLAP + MAX_OVERLAP * characters
        self.count = 0

    def add(self, chunk: ChunkRecord, at: str) -> None:
        """Take the next chunk. Raises ArchiveDamaged."""
        if not chunk.start < chunk.end <= self._characters or chunk.path not in self._places:
            raise ArchiveDamaged(f"{at}: a chunk of the archive is not of its document.")
        if chunk.tokens > TOKENS_A_CHARACTER * (chunk.end - chunk.start):
            raise ArchiveDamaged(f"{at}: a chunk of the archive has more tokens than its text can have.")
        if chunk.end - chunk.start > MAX_CHUNK_CHARACTERS:
            raise ArchiveDamaged(f"{at}: a chunk has more than {MAX_CHUNK_CHARACTERS} characters.")
        if chunk.picture is not None and chunk.picture not in self._pictures:
            raise ArchiveDamaged(f"{at}: a chunk of the archive shows a picture that is not there.")
        self._left -= chunk.end - chunk.start
        if self._left < 0:
            raise ArchiveDamaged(f"{at}: the chunks repeat the text more than {MAX_OVERLAP} times.")
        self.count += 1


if __name__ == "__main__":
    main()
