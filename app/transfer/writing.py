"""A stored document as the files of an archive, written in batches of rows: never all of them in memory."""

import hashlib
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import IO
from uuid import UUID

import numpy as np

from app.db.models.tenant_data import Document
from app.db.statements import Record
from app.documents.types import node_id
from app.ingestion.titles import LONG_TITLE, split_title
from app.settings.environment import temporary_directory
from app.transfer.records import (
    CHUNKS,
    NODES,
    ORIGINAL,
    PAGES,
    PARTS,
    TEXT,
    VECTORS,
    ChunkRecord,
    DocumentRecord,
    NodeRecord,
    PageRecord,
    Part,
    PictureRecord,
    picture_name,
)
from app.transfer.types import MOST_CHUNKS, MOST_LEVELS, MOST_NODES, MOST_PICTURES, PART_BYTES, RECORD_BYTES

Path = tuple[int, ...]
# Topics of several search indexes lie beside each other: so far behind its neighbours a node is looked for.
FURTHER = 256
PIECE_BYTES = 256 * 1024


class NotWritable(Exception):
    """The document cannot go into an archive; the message says why."""


class PartFile:
    """A part while it is written: in memory if it is small, else in a file; counted and hashed."""

    def __init__(self) -> None:
        self._file: IO[bytes] = tempfile.SpooledTemporaryFile(PIECE_BYTES, dir=str(temporary_directory()))  # noqa: SIM115
        self._digest = hashlib.sha256()
        self.size = 0

    def write(self, content: bytes) -> None:
        """Append. Raises NotWritable for more than a part may have."""
        self.size += len(content)
        if self.size > PART_BYTES:
            raise NotWritable("it is too large")
        self._digest.update(content)
        self._file.write(content)

    def described(self, name: str) -> Part:
        """What the record says of it."""
        return Part(name=name, bytes=self.size, sha256=self._digest.hexdigest())

    def pieces(self) -> Iterator[bytes]:
        """Yield what was written."""
        self._file.seek(0)
        while piece := self._file.read(PIECE_BYTES):
            yield piece

    def close(self) -> None:
        """Forget what was written."""
        self._file.close()


@dataclass(slots=True)
class DocumentWriter:
    """The parts of one document: its rows come in order, in batches. All methods block, and raise NotWritable."""

    document: Document
    text: str
    files: dict[str, PartFile] = field(default_factory=dict)
    _paths: "NodePaths" = field(init=False)
    _known: set[Path] = field(default_factory=set)
    _chunks: int = 0

    def __post_init__(self) -> None:
        self.files = {name: PartFile() for name in PARTS}
        self._paths = NodePaths(self.document.id, self.document.version)

    def add_text(self) -> None:
        """Write the text."""
        for start in range(0, len(self.text), PIECE_BYTES):
            self.files[TEXT].write(self.text[start : start + PIECE_BYTES].encode())

    def add_nodes(self, rows: Sequence[Record]) -> None:
        """Write further nodes; those that hang nowhere are left out."""
        lines = []
        for row in rows:
            path = self._paths.add(row["id"], row["parent_id"])
            if path is not None:
                self._known.add(path)
                lines.append(_node(row, path))
        if len(self._known) > MOST_NODES:
            raise NotWritable("it has too many parts")
        self.files[NODES].write(b"".join(lines))

    def add_pages(self, rows: Sequence[Record]) -> None:
        """Write further printed pages."""
        for row in rows:
            self.files[PAGES].write(_page(row))

    def add_chunks(self, rows: Sequence[Record]) -> None:
        """Write further chunks, and their vectors."""
        if any(row["content"] != self.text[row["start_offset"] : row["end_offset"]] for row in rows):
            raise NotWritable("its chunks are not of its text")
        if any(tuple(row["node_path"]) not in self._known for row in rows):
            raise NotWritable("its chunks are not of its tree")
        self._chunks += len(rows)
        if self._chunks > MOST_CHUNKS:
            raise NotWritable("it has too many parts")
        self.files[CHUNKS].write(b"".join(map(_chunk, rows)))
        self.files[VECTORS].write(_vectors(rows))

    def record(self, media: Sequence[Record]) -> DocumentRecord:
        """Describe the document and what was written of it, with these pictures."""
        if self._chunks != self.document.chunk_count:
            raise NotWritable("its chunks are not all there")
        if len(media) > MOST_PICTURES:
            raise NotWritable("it has too many parts")
        parts = [file.described(name) for name, file in self.files.items()]
        record = _document(self.document, parts, media)
        if len(record.encoded()) > RECORD_BYTES:
            raise NotWritable("it is too large")
        return record

    def close(self) -> None:
        """Forget what was written."""
        for file in self.files.values():
            file.close()


class NodePaths:
    """The paths that nodes' ids are made of.

    Nodes come with parents before their children, and mostly as their parents' next child.
    """

    def __init__(self, document_id: UUID, version: int) -> None:
        self._document_id, self._version = document_id, version
        self._paths: dict[UUID, Path] = {}
        self._seen: dict[UUID, int] = {}

    def add(self, id_: UUID, above: UUID | None) -> Path | None:
        """Return the path of the next node; None for one that hangs nowhere."""
        if above is None:
            self._paths[id_] = ()
            return ()
        parent = self._paths.get(above)
        if parent is None or len(parent) >= MOST_LEVELS:
            return None
        expected = self._seen.get(above, 0)
        for last in chain(range(expected, expected + FURTHER), range(expected)):
            if node_id(self._document_id, self._version, path := (*parent, last)) == id_:
                self._paths[id_] = path
                self._seen[above] = last + 1
                return path
        return None


def _node(row: Record, path: Path) -> bytes:
    return NodeRecord(
        path=path,
        kind=row["kind"],
        level=row["level"],
        start=row["start_offset"],
        end=row["end_offset"],
        title=_short(row["title"]),
        page=row["page"],
        page_end=row["page_end"],
        slide=row["slide"],
        block=row["block"],
    ).encoded()


def _short(title: str | None) -> str | None:
    """Older versions stored titles of any length; all of such a title is in the text."""
    return (split_title(title)[0] or None) if title else title


def _page(row: Record) -> bytes:
    boxes = row["boxes"]
    lines = chain.from_iterable(
        (start, end, *boxes[4 * number : 4 * number + 4])
        for number, (start, end) in enumerate(zip(row["starts"], row["ends"], strict=True))
    )
    return PageRecord(
        page=row["page"], width=round(row["width"] * 10), height=round(row["height"] * 10), lines=list(lines)
    ).encoded()


def _chunk(row: Record) -> bytes:
    return ChunkRecord(
        start=row["start_offset"],
        end=row["end_offset"],
        tokens=row["token_count"],
        path=tuple(row["node_path"]),
        sections=tuple(_short(title) or "" for title in row["section_titles"]),
        page=row["page"],
        page_end=row["page_end"],
        slide=row["slide"],
        metadata=row["metadata"],
        picture=row["media_ordinal"],
        embedded=row["embedding"] is not None,
    ).encoded()


def _vectors(chunks: Sequence[Record]) -> bytes:
    found = (row["embedding"].to_numpy() for row in chunks if row["embedding"] is not None)
    return b"".join(vector.astype(np.dtype("<f2")).tobytes() for vector in found)


def _document(row: Document, parts: Sequence[Part], media: Sequence[Record]) -> DocumentRecord:
    title = _short(row.title)
    return DocumentRecord(
        source=row.source,
        media_type=row.media_type,
        created_at=row.created_at,
        title=title,
        external_id=row.external_id,
        source_uri=row.source_uri,
        source_created_at=row.source_created_at,
        encoding=row.encoding,
        user_id=row.user_id,
        chat_id=row.chat_id,
        agent_id=row.agent_id,
        dynamic=row.dynamic,
        expires_at=row.expires_at,
        metadata=row.attributes,
        page_count=row.page_count,
        warnings=[*row.warnings, *([] if title == row.title else [LONG_TITLE])],
        pictures=[
            PictureRecord(number=one["ordinal"], media_type=one["media_type"], width=one["width"], height=one["height"])
            for one in media
        ],
        parts=[*parts, *_pictures(media), Part(name=ORIGINAL, bytes=row.bytes, sha256=row.sha256.hex())],
    )


def _pictures(media: Sequence[Record]) -> Iterator[Part]:
    for one in media:
        yield Part(name=picture_name(one["ordinal"]), bytes=one["bytes"], sha256=one["sha256"].hex())
