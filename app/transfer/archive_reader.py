"""Sandboxed program that checks the documents of an archive, line by line, before the service reads them.

A request comes with open files: text, nodes, pages and chunks, and replies of the enrichment if the document has some.
Each valid line is sent back after a letter: ``n`` for a node, ``p`` for a page, ``c`` for a chunk, ``r`` for a reply.
The last line begins with ``d`` and has the number of characters of the text. If the document is refused,
the last line begins with ``f`` and has the reason.
"""

import codecs
import json
import os
import resource
from array import array
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import IO, Any

from app.documents.source_map import SourceMap
from app.ingestion.types import NodeKind
from app.sandbox.channel import Channel
from app.sandbox.confinement import SandboxLimits
from app.transfer.archive_format import (
    CHUNKS,
    NODES,
    PAGES,
    REPLIES,
    ArchiveRecord,
    ChunkRecord,
    NodeRecord,
    PageRecord,
    parse_record,
    read_lines,
)
from app.transfer.reply_transfer import ReplyRecord
from app.transfer.types import (
    MAX_CHUNK_CHARACTERS,
    MAX_DOCUMENT_CHUNKS,
    MAX_DOCUMENT_NODES,
    MAX_DOCUMENT_REPLIES,
    MAX_OVERLAP_FACTOR,
    ArchiveDamaged,
    ArchiveTooLarge,
)

FREE_OVERLAP_CHARACTERS = 1_000_000
# A character has at most four bytes, but one ligature is normalized to eighteen letters.
MAX_TOKENS_PER_CHARACTER = 32
BATCH_BYTES = 32 * 1024
_PIECE_BYTES = 256 * 1024

NodePath = tuple[int, ...]


def main() -> None:
    """Handle requests until the service ends."""
    channel = Channel()
    setup = channel.setup
    channel.confine(SandboxLimits(memory_mb=setup["memory_mb"]))
    for request, descriptors in channel.iter_requests():
        _limit_cpu(setup["cpu_seconds"])
        with ExitStack() as stack:
            files = [stack.enter_context(os.fdopen(descriptor, "rb", closefd=False)) for descriptor in descriptors]
            _handle_request(channel, request, files)


def _limit_cpu(seconds: int) -> None:
    """Limit the CPU time of this request. Only the soft limit changes, so that the next request can raise it again."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = int(used.ru_utime + used.ru_stime) + seconds + 1
    resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.RLIM_INFINITY))


def _handle_request(channel: Channel, request: dict[str, Any], files: Sequence[IO[bytes]]) -> None:
    buffer = bytearray()
    try:
        for line in _check_document(request, files):
            buffer += line
            if len(buffer) >= BATCH_BYTES:
                channel.write(bytes(buffer))
                buffer.clear()
    except (ArchiveDamaged, ArchiveTooLarge) as exc:
        buffer += _format_last_line("f", {"error": type(exc).__name__, "message": exc.message[:500]})
    except MemoryError:
        buffer = bytearray(
            _format_last_line("f", {"error": "ArchiveTooLarge", "message": "A document needs too much memory."})
        )
    channel.write(bytes(buffer))


def _format_last_line(letter: str, values: dict[str, Any]) -> bytes:
    return letter.encode() + json.dumps(values).encode("ascii") + b"\n"


def _check_document(request: dict[str, Any], files: Sequence[IO[bytes]]) -> Iterator[bytes]:
    text, nodes, pages, chunks, *replies = files
    characters = count_characters(text, max_characters=request["max_characters"])
    tree_validator = TreeValidator(characters)
    for location, line in read_lines(nodes, NODES, max_lines=MAX_DOCUMENT_NODES):
        node = parse_record(NodeRecord, line, location)
        tree_validator.add(node, location)
        yield _format_line("n", node)
    tree_validator.require_root()
    page_numbers: set[int] = set()
    for location, line in read_lines(pages, PAGES, max_lines=MAX_DOCUMENT_CHUNKS):
        page = parse_record(PageRecord, line, location)
        if page.page in page_numbers:
            raise ArchiveDamaged(f"{location}: the page occurs twice.")
        page_numbers.add(page.page)
        check_page(page, characters, location)
        yield _format_line("p", page)
    chunk_validator = ChunkValidator(tree_validator, characters, frozenset(request["images"]))
    for location, line in read_lines(chunks, CHUNKS, max_lines=MAX_DOCUMENT_CHUNKS):
        chunk = parse_record(ChunkRecord, line, location)
        chunk_validator.add(chunk, location)
        yield _format_line("c", chunk)
    if not chunk_validator.count:
        raise ArchiveDamaged("A document of the archive has no chunks.")
    for file in replies:
        for location, line in read_lines(file, REPLIES, max_lines=MAX_DOCUMENT_REPLIES):
            reply = parse_record(ReplyRecord, line, location)
            check_reply_lines(reply, characters, location)
            yield _format_line("r", reply)
    yield _format_last_line("d", {"characters": characters})


def _format_line(letter: str, record: ArchiveRecord) -> bytes:
    return letter.encode() + record.to_json_line()


def count_characters(file: IO[bytes], *, max_characters: int) -> int:
    """Return the number of characters of a text, without holding the text in memory.

    Args:
        file: The text in UTF-8.
        max_characters: Maximum number of characters.

    Raises:
        ArchiveDamaged: The text is not UTF-8, or has the character U+0000.
        ArchiveTooLarge: The text has too many characters.
    """
    decoder, count, is_last = codecs.getincrementaldecoder("utf-8")(), 0, False
    while not is_last:
        piece = file.read(_PIECE_BYTES)
        is_last = not piece
        try:
            text = decoder.decode(piece, is_last)
        except UnicodeError as exc:
            raise ArchiveDamaged("A text of the archive is not UTF-8.") from exc
        if "\0" in text:
            raise ArchiveDamaged("A text of the archive has the character U+0000.")
        count += len(text)
        if count > max_characters:
            raise ArchiveTooLarge(f"A text of the archive has more than {max_characters} characters.")
    return count


class TreeValidator:
    """Validator of a tree's nodes. Each node comes after its parent."""

    def __init__(self, characters: int) -> None:
        self._characters = characters
        self._paths: set[NodePath] = set()
        self._source_end = 0

    def __contains__(self, path: NodePath) -> bool:
        return path in self._paths

    def add(self, node: NodeRecord, location: str) -> None:
        """Check the next node.

        Args:
            node: The node.
            location: File and line, for the error message.

        Raises:
            ArchiveDamaged: The node has no parent, or its range or path is not valid.
        """
        is_wrong = node.path in self._paths or not node.start <= node.end <= self._characters
        if is_wrong or (bool(node.path) and node.path[:-1] not in self._paths) or (not node.path and self._paths):
            raise ArchiveDamaged(f"{location}: a node has no parent, or its range or path is not valid.")
        if not node.path and node.kind is not NodeKind.DOCUMENT:
            raise ArchiveDamaged(f"{location}: a tree of the archive has no root.")
        self._paths.add(node.path)
        for numbers in filter(None, (node.source, node.places)):
            if node.start < self._source_end or not SourceMap(array("i", numbers)).is_valid(node.end - node.start):
                raise ArchiveDamaged(f"{location}: a position in the file is not valid.")
        if node.source or node.places:
            self._source_end = node.end

    def require_root(self) -> None:
        """Raise ArchiveDamaged if the tree has no nodes."""
        if not self._paths:
            raise ArchiveDamaged("A tree of the archive has no root.")


def check_page(page: PageRecord, characters: int, location: str) -> None:
    """Raise ArchiveDamaged if lines of a page are outside the text."""
    ranges = zip(page.lines[::6], page.lines[1::6], strict=False)
    if len(page.lines) % 6 or any(not 0 <= start <= end <= characters for start, end in ranges):
        raise ArchiveDamaged(f"{location}: lines of a page are outside the text of the document.")


def check_reply_lines(reply: ReplyRecord, characters: int, location: str) -> None:
    """Raise ArchiveDamaged if context lines of a reply are about ranges outside the text."""
    if any(not line.start <= line.end <= characters for line in reply.lines):
        raise ArchiveDamaged(f"{location}: a context line is outside the text of the document.")


class ChunkValidator:
    """Validator of a document's chunks."""

    def __init__(self, tree_validator: TreeValidator, characters: int, image_numbers: frozenset[int]) -> None:
        self._tree_validator, self._characters, self._image_numbers = tree_validator, characters, image_numbers
        self._remaining_characters = FREE_OVERLAP_CHARACTERS + MAX_OVERLAP_FACTOR * characters
        self.count = 0

    def add(self, chunk: ChunkRecord, location: str) -> None:
        """Check the next chunk.

        Args:
            chunk: The chunk.
            location: File and line, for the error message.

        Raises:
            ArchiveDamaged: The chunk does not belong to the document, or exceeds a limit.
        """
        if not chunk.start < chunk.end <= self._characters or chunk.path not in self._tree_validator:
            raise ArchiveDamaged(f"{location}: a chunk of the archive does not belong to its document.")
        length = chunk.end - chunk.start + len(chunk.table_head or "")
        if chunk.tokens > MAX_TOKENS_PER_CHARACTER * length:
            raise ArchiveDamaged(f"{location}: a chunk of the archive has more tokens than its text can have.")
        if length > MAX_CHUNK_CHARACTERS:
            raise ArchiveDamaged(f"{location}: a chunk has more than {MAX_CHUNK_CHARACTERS} characters.")
        if chunk.image is not None and chunk.image not in self._image_numbers:
            raise ArchiveDamaged(f"{location}: a chunk of the archive refers to an image that is not in it.")
        self._remaining_characters -= length
        if self._remaining_characters < 0:
            raise ArchiveDamaged(f"{location}: the chunks repeat the text more than {MAX_OVERLAP_FACTOR} times.")
        self.count += 1


if __name__ == "__main__":
    main()
