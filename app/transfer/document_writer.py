"""Conversion of a stored document to files of an archive. Rows are written in batches, and never all in memory."""

import hashlib
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import IO
from uuid import UUID

import numpy as np

from app.db.models.tenant_data import DocumentRow
from app.db.statements import Record
from app.documents.source_map import SourceMap
from app.documents.types import build_node_id
from app.ingestion.title_limits import TITLE_SHORTENED, split_title
from app.settings.environment import find_temporary_directory
from app.transfer.archive_format import (
    CHUNKS,
    NODES,
    ORIGINAL,
    PAGES,
    PARTS,
    REPLIES,
    TEXT,
    VECTORS,
    ArchivePart,
    ChunkRecord,
    DocumentRecord,
    ImageRecord,
    NodeRecord,
    PageRecord,
    SplitRecord,
    WarningRecord,
    build_image_name,
)
from app.transfer.reply_transfer import ReplyRecord
from app.transfer.types import (
    MAX_DOCUMENT_CHUNKS,
    MAX_DOCUMENT_IMAGES,
    MAX_DOCUMENT_NODES,
    MAX_DOCUMENT_REPLIES,
    MAX_PART_BYTES,
    MAX_RECORD_BYTES,
    MAX_TREE_LEVELS,
)
from app.warnings import parse_stored_warnings

NodePath = tuple[int, ...]
# A document with several search indexes has nodes of all of them, so child numbers can have gaps up to this size.
MAX_SIBLING_GAP = 256
PIECE_BYTES = 256 * 1024


class DocumentNotWritable(Exception):
    """The document cannot be part of an archive; the message gives the reason."""


class PartFile:
    """A part that is being written, with its size and hash. A small part stays in memory, a larger part is a file."""

    def __init__(self) -> None:
        self._file: IO[bytes] = tempfile.SpooledTemporaryFile(PIECE_BYTES, dir=str(find_temporary_directory()))  # noqa: SIM115
        self._digest = hashlib.sha256()
        self.size = 0

    def write(self, content: bytes) -> None:
        """Append bytes. Raises DocumentNotWritable above the maximum size of a part."""
        self.size += len(content)
        if self.size > MAX_PART_BYTES:
            raise DocumentNotWritable("it is too large")
        self._digest.update(content)
        self._file.write(content)

    def to_part(self, name: str) -> ArchivePart:
        """Return the record of the part."""
        return ArchivePart(name=name, bytes=self.size, sha256=self._digest.hexdigest())

    def iter_pieces(self) -> Iterator[bytes]:
        """Yield the content in pieces."""
        self._file.seek(0)
        while piece := self._file.read(PIECE_BYTES):
            yield piece

    def close(self) -> None:
        """Discard the content."""
        self._file.close()


@dataclass(slots=True)
class DocumentWriter:
    """Writer of the parts of one document. Rows come in order, in batches.

    All methods block, and raise DocumentNotWritable.
    """

    document: DocumentRow
    text: str
    source_map: SourceMap | None = None
    place_map: SourceMap | None = None
    files: dict[str, PartFile] = field(default_factory=dict)
    _paths: "NodePathFinder" = field(init=False)
    _written_paths: set[NodePath] = field(default_factory=set)
    _chunk_count: int = 0

    def __post_init__(self) -> None:
        self.files = {name: PartFile() for name in PARTS}
        self._paths = NodePathFinder(self.document.id, self.document.version)

    def add_text(self) -> None:
        """Write the text."""
        for start in range(0, len(self.text), PIECE_BYTES):
            self.files[TEXT].write(self.text[start : start + PIECE_BYTES].encode())

    def add_nodes(self, rows: Sequence[Record]) -> None:
        """Write a batch of nodes. Nodes without a parent are left out.

        Args:
            rows: Rows of the table node, parents before children.

        Raises:
            DocumentNotWritable: There are too many nodes.
        """
        lines = []
        for row in rows:
            path = self._paths.add(row["id"], row["parent_id"])
            if path is not None:
                self._written_paths.add(path)
                lines.append(_encode_node(row, path, self.source_map, self.place_map))
        if len(self._written_paths) > MAX_DOCUMENT_NODES:
            raise DocumentNotWritable("it has too many parts")
        self.files[NODES].write(b"".join(lines))

    def add_pages(self, rows: Sequence[Record]) -> None:
        """Write a batch of pages."""
        for row in rows:
            self.files[PAGES].write(_encode_page(row))

    def add_chunks(self, rows: Sequence[Record]) -> None:
        """Write a batch of chunks with their vectors.

        Args:
            rows: Rows of the table chunk, each with its vector as ``embedding``.

        Raises:
            DocumentNotWritable: A chunk does not belong to the text or the tree, or there are too many.
        """
        if any(_get_own_text(row) != self.text[row["start_offset"] : row["end_offset"]] for row in rows):
            raise DocumentNotWritable("its chunks do not belong to its text")
        if any(tuple(row["node_path"]) not in self._written_paths for row in rows):
            raise DocumentNotWritable("its chunks do not belong to its tree")
        self._chunk_count += len(rows)
        if self._chunk_count > MAX_DOCUMENT_CHUNKS:
            raise DocumentNotWritable("it has too many parts")
        self.files[CHUNKS].write(b"".join(map(_encode_chunk, rows)))
        self.files[VECTORS].write(_encode_vectors(rows))

    def add_replies(self, rows: Sequence[Record]) -> None:
        """Write the replies of the enrichment, if the document has some.

        Args:
            rows: Rows of the table enrichment_result.

        Raises:
            DocumentNotWritable: There are too many.
        """
        if len(rows) > MAX_DOCUMENT_REPLIES:
            raise DocumentNotWritable("it has too many replies of the enrichment")
        if rows:
            self.files[REPLIES] = PartFile()
            self.files[REPLIES].write(b"".join(map(_encode_reply, rows)))

    def build_record(self, images: Sequence[Record], splits: Sequence[SplitRecord] = ()) -> DocumentRecord:
        """Return the record of the document and its written parts.

        Args:
            images: Rows of the document's images.
            splits: Splits of entities in the document.

        Raises:
            DocumentNotWritable: Chunks are missing, or the record is too large.
        """
        if self._chunk_count != self.document.chunk_count:
            raise DocumentNotWritable("some of its chunks are missing")
        if len(images) > MAX_DOCUMENT_IMAGES:
            raise DocumentNotWritable("it has too many parts")
        parts = [file.to_part(name) for name, file in self.files.items()]
        record = _build_document_record(self.document, parts, images).model_copy(update={"splits": tuple(splits)})
        if len(record.to_json_line()) > MAX_RECORD_BYTES:
            raise DocumentNotWritable("it is too large")
        return record

    def close(self) -> None:
        """Discard the written parts."""
        for file in self.files.values():
            file.close()


class NodePathFinder:
    """Finder of the paths of nodes. A path has the child number at each level. Ids of nodes are derived from paths.

    Paths are not stored, so the finder tries child numbers until the derived id equals the stored id. Parents come
    before their children. Most nodes are the next child of their parent, so the first attempt succeeds.
    """

    def __init__(self, document_id: UUID, version: int) -> None:
        self._document_id, self._version = document_id, version
        self._paths: dict[UUID, NodePath] = {}
        self._next_children: dict[UUID, int] = {}

    def add(self, stored_id: UUID, parent_id: UUID | None) -> NodePath | None:
        """Return the path of the next node, or None if the parent is unknown or no path fits.

        Args:
            stored_id: Id of the node.
            parent_id: Id of the node's parent; None for the root.
        """
        if parent_id is None:
            self._paths[stored_id] = ()
            return ()
        parent_path = self._paths.get(parent_id)
        if parent_path is None or len(parent_path) >= MAX_TREE_LEVELS:
            return None
        expected = self._next_children.get(parent_id, 0)
        for child_number in chain(range(expected, expected + MAX_SIBLING_GAP), range(expected)):
            if build_node_id(self._document_id, self._version, path := (*parent_path, child_number)) == stored_id:
                self._paths[stored_id] = path
                self._next_children[parent_id] = child_number + 1
                return path
        return None


def _encode_node(row: Record, path: NodePath, source_map: SourceMap | None, place_map: SourceMap | None) -> bytes:
    return NodeRecord(
        source=_slice_numbers(row, source_map),
        places=_slice_numbers(row, place_map),
        path=path,
        kind=row["kind"],
        level=row["level"],
        start=row["start_offset"],
        end=row["end_offset"],
        title=_shorten_title(row["title"]),
        page=row["page"],
        page_end=row["page_end"],
        slide=row["slide"],
        block=row["block"],
    ).to_json_line()


def _slice_numbers(row: Record, stored_map: SourceMap | None) -> tuple[int, ...]:
    """Return the numbers of a map for a paragraph; no numbers for any other node."""
    if stored_map is None or not row["block"]:
        return ()
    return tuple(stored_map.slice(row["start_offset"], row["end_offset"]).numbers)


def _shorten_title(title: str | None) -> str | None:
    """Return the beginning of a title. Older versions stored titles of any length; the text has the complete title."""
    return (split_title(title)[0] or None) if title else title


def _encode_page(row: Record) -> bytes:
    boxes = row["boxes"]
    lines = chain.from_iterable(
        (start, end, *boxes[4 * number : 4 * number + 4])
        for number, (start, end) in enumerate(zip(row["starts"], row["ends"], strict=True))
    )
    return PageRecord(
        page=row["page"], width=round(row["width"] * 10), height=round(row["height"] * 10), lines=list(lines)
    ).to_json_line()


def _get_own_text(row: Record) -> str:
    """Return the text of a chunk without the repeated head of a table."""
    content: str = row["content"]
    return content if row["table_head_length"] is None else content[row["table_head_length"] + 1 :]


def _encode_chunk(row: Record) -> bytes:
    return ChunkRecord(
        start=row["start_offset"],
        end=row["end_offset"],
        tokens=row["token_count"],
        path=tuple(row["node_path"]),
        sections=tuple(_shorten_title(title) or "" for title in row["section_titles"]),
        page=row["page"],
        page_end=row["page_end"],
        slide=row["slide"],
        metadata=row["metadata"],
        image=row["image_ordinal"],
        table_head=None if row["table_head_length"] is None else row["content"][: row["table_head_length"]],
        context_line=row["context_line"],
        embedded=row["embedding"] is not None,
        **(row["provided_graph"] or {}),
    ).to_json_line()


def _encode_reply(row: Record) -> bytes:
    return ReplyRecord(
        **row["reply"],
        hash=row["content_hash"].hex(),
        tokens=row["tokens"],
        estimated_tokens=row["estimated_tokens"],
    ).to_json_line()


def _encode_vectors(chunks: Sequence[Record]) -> bytes:
    vectors = (row["embedding"].to_numpy() for row in chunks if row["embedding"] is not None)
    return b"".join(vector.astype(np.dtype("<f2")).tobytes() for vector in vectors)


def _build_document_record(row: DocumentRow, parts: Sequence[ArchivePart], images: Sequence[Record]) -> DocumentRecord:
    title = _shorten_title(row.title)
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
        warnings=_build_warning_records(row, title),
        images=[
            ImageRecord(
                number=image["ordinal"], media_type=image["media_type"], width=image["width"], height=image["height"]
            )
            for image in images
        ],
        parts=[
            *parts,
            *_iter_image_parts(images),
            ArchivePart(name=ORIGINAL, bytes=row.bytes, sha256=row.sha256.hex()),
        ],
    )


def _build_warning_records(row: DocumentRow, title: str | None) -> list[WarningRecord]:
    warnings = parse_stored_warnings(row.warnings)
    if title != row.title:
        warnings.append(TITLE_SHORTENED)
    return [WarningRecord(code=warning.code, message=warning.message, count=warning.count) for warning in warnings]


def _iter_image_parts(images: Sequence[Record]) -> Iterator[ArchivePart]:
    for image in images:
        yield ArchivePart(name=build_image_name(image["ordinal"]), bytes=image["bytes"], sha256=image["sha256"].hex())
