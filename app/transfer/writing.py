"""A stored document as the files of an archive."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from uuid import UUID

import numpy as np

from app.db.statements import Record
from app.documents.types import node_id
from app.transfer.records import (
    CHUNKS,
    NODES,
    ORIGINAL,
    PAGES,
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
from app.transfer.repository import StoredParts
from app.transfer.types import MOST_CHUNKS, MOST_LEVELS, MOST_NODES, MOST_PICTURES, PART_BYTES, RECORD_BYTES

Path = tuple[int, ...]
# Topics of several search indexes lie beside each other: so far behind its neighbours a node is looked for.
FURTHER = 256


class NotWritable(Exception):
    """The document cannot go into an archive; the message says why."""


@dataclass(frozen=True, slots=True)
class WrittenDocument:
    """Its record, and the files that are not objects of the store, by name."""

    record: DocumentRecord
    files: Mapping[str, bytes]


def written(stored: StoredParts) -> WrittenDocument:
    """Blocking. Raises NotWritable."""
    if any(chunk["content"] != stored.text[chunk["start_offset"] : chunk["end_offset"]] for chunk in stored.chunks):
        raise NotWritable("its chunks are not of its text")
    paths = node_paths(stored.document.id, stored.document.version, stored.nodes)
    if not {tuple(chunk["node_path"]) for chunk in stored.chunks} <= set(paths.values()):
        raise NotWritable("its chunks are not of its tree")
    if len(stored.chunks) > MOST_CHUNKS or len(paths) > MOST_NODES or len(stored.media) > MOST_PICTURES:
        raise NotWritable("it has too many parts")
    files = {
        TEXT: stored.text.encode(),
        NODES: b"".join(_node(row, paths[row["id"]]) for row in stored.nodes if row["id"] in paths),
        PAGES: b"".join(map(_page, stored.pages)),
        CHUNKS: b"".join(map(_chunk, stored.chunks)),
        VECTORS: _vectors(stored.chunks),
    }
    record = _document(stored, files)
    if any(len(content) > PART_BYTES for content in files.values()) or len(record.encoded()) > RECORD_BYTES:
        raise NotWritable("it is too large")
    return WrittenDocument(record, files)


def node_paths(document_id: UUID, version: int, rows: Sequence[Record]) -> dict[UUID, Path]:
    """The paths that the nodes' ids are made of; those of nodes that hang nowhere are left out.

    ``rows`` come with parents before their children, and mostly as their parents' next child.
    """
    paths: dict[UUID, Path] = {}
    seen: dict[UUID, int] = {}
    for row in rows:
        id_, above = row["id"], row["parent_id"]
        if above is None:
            paths[id_] = ()
        elif above in paths and len(paths[above]) < MOST_LEVELS:
            expected = seen.get(above, 0)
            for last in chain(range(expected, expected + FURTHER), range(expected)):
                if node_id(document_id, version, path := (*paths[above], last)) == id_:
                    paths[id_] = path
                    seen[above] = last + 1
                    break
    return paths


def _node(row: Record, path: Path) -> bytes:
    return NodeRecord(
        path=path,
        kind=row["kind"],
        level=row["level"],
        start=row["start_offset"],
        end=row["end_offset"],
        title=row["title"],
        page=row["page"],
        page_end=row["page_end"],
        slide=row["slide"],
        block=row["block"],
    ).encoded()


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
        sections=tuple(row["section_titles"]),
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


def _document(stored: StoredParts, files: Mapping[str, bytes]) -> DocumentRecord:
    row = stored.document
    return DocumentRecord(
        source=row.source,
        media_type=row.media_type,
        created_at=row.created_at,
        title=row.title,
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
        warnings=row.warnings,
        pictures=[
            PictureRecord(number=one["ordinal"], media_type=one["media_type"], width=one["width"], height=one["height"])
            for one in stored.media
        ],
        parts=list(_parts(stored, files)),
    )


def _parts(stored: StoredParts, files: Mapping[str, bytes]) -> Iterator[Part]:
    for name, content in files.items():
        yield Part(name=name, bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
    for one in stored.media:
        yield Part(name=picture_name(one["ordinal"]), bytes=one["bytes"], sha256=one["sha256"].hex())
    yield Part(name=ORIGINAL, bytes=stored.document.bytes, sha256=stored.document.sha256.hex())
