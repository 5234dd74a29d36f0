"""Conversion of a document's files in an archive to the result of its ingestion. The archive is not trusted."""

from array import array
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from app.documents.source_map import SourceMap
from app.graph.types import ChunkGraph
from app.inference.embedding import Embedder
from app.ingestion.embedding_text import contextualize_chunks
from app.ingestion.graph_extraction import GraphSource, build_chunk_metadata, extract_graphs
from app.ingestion.types import ChunkDraft, DocumentTree, LineLayout, TreeNode
from app.knowledge_bases.types import KnowledgeBaseView
from app.lexical.languages import build_lexical_entries, resolve_document_language
from app.lexical.weights import LexicalEntry
from app.threads import raise_if_cancelled
from app.transfer.archive_format import (
    TEXT,
    VECTORS,
    ArchiveRecord,
    ChunkRecord,
    DocumentRecord,
    NodeRecord,
    PageRecord,
)
from app.transfer.archive_reader import ChunkValidator, TreeValidator, check_page, check_reply_lines
from app.transfer.reply_transfer import ReplyRecord
from app.transfer.types import ArchiveDamaged

# Range of the length of a unit vector after rounding to single and half precision.
UNIT_LENGTH_RANGE = (0.97, 1.03)
_ROWS_PER_CHECK = 4096


@dataclass(frozen=True, slots=True)
class ImportedDocument:
    """The data that are indexed for a document.

    Sequences have one entry for each chunk. ``image_by_chunk`` maps positions of chunks to numbers of images.
    """

    tree: DocumentTree
    drafts: Sequence[ChunkDraft]
    token_counts: Sequence[int]
    vectors: npt.NDArray[Any]
    unembedded: frozenset[int]
    language: str
    entries: Sequence[LexicalEntry]
    image_by_chunk: Mapping[int, int]
    graphs: Sequence[ChunkGraph] | None
    replies: Sequence[ReplyRecord] = ()


@dataclass(slots=True)
class DocumentStructure:
    """Tree and chunks of a document, built from records. The text of a chunk is a range of the stored text."""

    text: str
    enforced_keys: Collection[str]
    nodes: dict[tuple[int, ...], TreeNode] = field(default_factory=dict)
    line_layouts: dict[int, LineLayout] = field(default_factory=dict)
    drafts: list[ChunkDraft] = field(default_factory=list)
    token_counts: "array[int]" = field(default_factory=lambda: array("i"))
    unembedded: set[int] = field(default_factory=set)
    image_by_chunk: dict[int, int] = field(default_factory=dict)
    source_numbers: "array[int]" = field(default_factory=lambda: array("i"))
    place_numbers: "array[int]" = field(default_factory=lambda: array("i"))
    replies: list[ReplyRecord] = field(default_factory=list)

    async def add_records(self, records: AsyncIterator[ArchiveRecord], image_numbers: Collection[int]) -> None:
        """Check all records against the text and the earlier records, and add them.

        The sandboxed reader has checked the records before, but its replies are not trusted.

        Args:
            records: The nodes, pages, chunks and replies.
            image_numbers: Numbers of the document's images.

        Raises:
            ArchiveDamaged: A record is not valid, or there are no chunks.
        """
        tree_validator = TreeValidator(len(self.text))
        chunk_validator = ChunkValidator(tree_validator, len(self.text), frozenset(image_numbers))
        location = "A document of the archive"
        async for record in records:
            match record:
                case NodeRecord():
                    tree_validator.add(record, location)
                    self._add_node(record)
                case PageRecord():
                    check_page(record, len(self.text), location)
                    self.line_layouts[record.page] = LineLayout(record.width, record.height, array("i", record.lines))
                case ChunkRecord():
                    chunk_validator.add(record, location)
                    self._add_chunk(record)
                case ReplyRecord():
                    check_reply_lines(record, len(self.text), location)
                    self.replies.append(record)
        tree_validator.require_root()
        if not self.drafts:
            raise ArchiveDamaged("A document of the archive has no chunks.")

    def build_tree(self) -> DocumentTree:
        """Return the tree of all nodes."""
        source_map = SourceMap(self.source_numbers) if self.source_numbers else None
        place_map = SourceMap(self.place_numbers) if self.place_numbers else None
        return DocumentTree(self.text, self.nodes[()], self.line_layouts, source_map=source_map, place_map=place_map)

    def _add_node(self, row: NodeRecord) -> None:
        node = TreeNode(row.kind, row.level, row.start, row.end, path=row.path, title=row.title, block=row.block)
        node.page, node.page_end, node.slide = row.page, row.page_end, row.slide
        if row.path:
            self.nodes[row.path[:-1]].children.append(node)
        self.nodes[row.path] = node
        for collected, numbers in ((self.source_numbers, row.source), (self.place_numbers, row.places)):
            for segment in SourceMap(array("i", numbers)):
                collected.extend(segment._replace(start=segment.start + row.start))

    def _add_chunk(self, chunk: ChunkRecord) -> None:
        position = len(self.drafts)
        if not chunk.embedded:
            self.unembedded.add(position)
        if chunk.image is not None:
            self.image_by_chunk[position] = chunk.image
        self.token_counts.append(chunk.tokens)
        self.drafts.append(
            ChunkDraft(
                self.text[chunk.start : chunk.end],
                chunk.start,
                chunk.end,
                section_titles=chunk.sections,
                page=chunk.page,
                page_end=chunk.page_end,
                slide=chunk.slide,
                node_path=chunk.path,
                metadata={key: value for key, value in chunk.metadata.items() if key not in self.enforced_keys},
                table_head=chunk.table_head,
                provided_graph=chunk.to_provided_graph(),
                context_line=chunk.context_line,
            )
        )


def read_text(folder: Path, *, max_characters: int) -> str:
    """Return the text of a document. The call blocks.

    Args:
        folder: Folder with the document's files.
        max_characters: Maximum number of characters; the rest is not read.

    Raises:
        ArchiveDamaged: The text is not UTF-8, or has the character U+0000.
    """
    try:
        with (folder / TEXT).open(encoding="utf-8", newline="") as file:
            text = file.read(max_characters)
    except UnicodeError as exc:
        raise ArchiveDamaged("A text of the archive is not UTF-8.") from exc
    if "\0" in text:
        raise ArchiveDamaged("A text of the archive has the character U+0000.")
    return text


def build_imported_document(
    record: DocumentRecord, structure: DocumentStructure, folder: Path, kb: KnowledgeBaseView, embedder: Embedder
) -> ImportedDocument:
    """Return the document with its vectors and lexical entries. The text is analyzed again. The call blocks.

    Args:
        record: Record of the document.
        structure: The document's tree and chunks.
        folder: Folder with the document's files.
        kb: The knowledge base that the document is imported into.
        embedder: Embedding model of the knowledge base.

    Raises:
        ArchiveDamaged: The vectors are not valid.
        TooManyTerms: The document has too many different terms.
    """
    drafts = structure.drafts
    vectors = _read_vectors(folder / VECTORS, len(drafts), structure.unembedded, embedder.identity.dimensions)
    limit = embedder.max_tokens - embedder.special_tokens
    texts = contextualize_chunks(
        record.title, drafts, count_tokens=embedder.count_tokens, max_tokens=limit, source=record.source
    )
    raise_if_cancelled()
    language = resolve_document_language(kb.row.language, structure.text)
    return ImportedDocument(
        tree=structure.build_tree(),
        drafts=drafts,
        token_counts=structure.token_counts,
        vectors=vectors,
        unembedded=frozenset(structure.unembedded),
        language=language,
        entries=build_lexical_entries(
            texts, language=language, index_id=kb.index.id, avgdl=kb.index.avgdl, version=kb.analyzer_version
        ),
        image_by_chunk=structure.image_by_chunk,
        graphs=extract_graphs(_build_graph_source(record, structure, kb, language), drafts),
        replies=structure.replies,
    )


def _build_graph_source(
    record: DocumentRecord, structure: DocumentStructure, kb: KnowledgeBaseView, language: str
) -> GraphSource:
    enforced_metadata = kb.row.enforced_metadata
    metadata = build_chunk_metadata({**record.metadata, **enforced_metadata}, structure.drafts, enforced_metadata)
    return GraphSource(kb.index_graph, record.title, record.source, language, metadata)


def _read_vectors(path: Path, chunks: int, unembedded: Collection[int], dimensions: int) -> npt.NDArray[Any]:
    """Return the vector of each chunk in half precision, with zeros for chunks without a vector.

    All vectors must have the length one, like all stored vectors.
    """
    count = chunks - len(unembedded)
    if path.stat().st_size != 2 * dimensions * count:
        raise ArchiveDamaged(f"{VECTORS} does not have the size of {count} vectors of {dimensions} dimensions.")
    stored_vectors = np.fromfile(path, np.dtype("<f2")).reshape(count, dimensions)
    for start in range(0, count, _ROWS_PER_CHECK):
        raise_if_cancelled()
        lengths = np.linalg.norm(stored_vectors[start : start + _ROWS_PER_CHECK].astype(np.float32), axis=1)
        # A comparison with NaN is False.
        if not np.all((lengths > UNIT_LENGTH_RANGE[0]) & (lengths < UNIT_LENGTH_RANGE[1])):
            raise ArchiveDamaged(f"{VECTORS} has vectors that are not finite or not of length one.")
    if not unembedded:
        return stored_vectors
    vectors = np.zeros((chunks, dimensions), np.float16)
    vectors[[position for position in range(chunks) if position not in unembedded]] = stored_vectors
    return vectors
