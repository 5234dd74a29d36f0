"""The files of a document in an archive as what ingestion would have made of it; nobody has to be honest."""

from array import array
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from app.inference.embedding import Embedder
from app.ingestion.passages import passage_texts
from app.ingestion.types import ChunkDraft, DocumentTree, PrintedLines, TreeNode
from app.knowledge_bases.types import KnowledgeBaseView
from app.lexical.languages import document_language, lexical_entries
from app.lexical.weights import LexicalEntry
from app.threads import require_wanted
from app.transfer.reader import ChunkCheck, Places, check_page
from app.transfer.records import (
    TEXT,
    VECTORS,
    ChunkRecord,
    DocumentRecord,
    NodeRecord,
    PageRecord,
    Record,
)
from app.transfer.types import ArchiveDamaged

# What single precision and halves leave of a length of one.
ABOUT_ONE = (0.97, 1.03)
_ROWS = 4096


@dataclass(frozen=True, slots=True)
class ReadDocument:
    """What is indexed of a document; the sequences run parallel, ``shown`` are pictures' numbers by their chunks'."""

    tree: DocumentTree
    drafts: Sequence[ChunkDraft]
    token_counts: Sequence[int]
    vectors: npt.NDArray[Any]
    unembedded: frozenset[int]
    language: str
    entries: Sequence[LexicalEntry]
    shown: Mapping[int, int]


@dataclass(slots=True)
class Structure:
    """Tree and chunks of a document, put together from records; the chunks' texts are ranges of the stored text."""

    text: str
    fixed: Collection[str]
    nodes: dict[tuple[int, ...], TreeNode] = field(default_factory=dict)
    printed: dict[int, PrintedLines] = field(default_factory=dict)
    drafts: list[ChunkDraft] = field(default_factory=list)
    token_counts: "array[int]" = field(default_factory=lambda: array("i"))
    unembedded: set[int] = field(default_factory=set)
    shown: dict[int, int] = field(default_factory=dict)

    async def fill(self, records: AsyncIterator[Record], pictures: Collection[int]) -> None:
        """Take all records; each is compared once more with the text and with those before. Raises ArchiveDamaged."""
        places = Places(len(self.text))
        check = ChunkCheck(places, len(self.text), frozenset(pictures))
        at = "A document of the archive"
        async for record in records:
            match record:
                case NodeRecord():
                    places.add(record, at)
                    self._add_node(record)
                case PageRecord():
                    check_page(record, len(self.text), at)
                    self.printed[record.page] = PrintedLines(record.width, record.height, array("i", record.lines))
                case ChunkRecord():
                    check.add(record, at)
                    self._add_chunk(record)
        places.require_root()
        if not self.drafts:
            raise ArchiveDamaged("A document of the archive has no chunks.")

    def tree(self) -> DocumentTree:
        """Return the tree of all nodes."""
        return DocumentTree(self.text, self.nodes[()], self.printed)

    def _add_node(self, row: NodeRecord) -> None:
        node = TreeNode(row.kind, row.level, row.start, row.end, path=row.path, title=row.title, block=row.block)
        node.page, node.page_end, node.slide = row.page, row.page_end, row.slide
        if row.path:
            self.nodes[row.path[:-1]].children.append(node)
        self.nodes[row.path] = node

    def _add_chunk(self, chunk: ChunkRecord) -> None:
        place = len(self.drafts)
        if not chunk.embedded:
            self.unembedded.add(place)
        if chunk.picture is not None:
            self.shown[place] = chunk.picture
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
                metadata={key: value for key, value in chunk.metadata.items() if key not in self.fixed},
            )
        )


def read_text(folder: Path, *, most: int) -> str:
    """Return the text of a document whose files are in ``folder``. Blocking. Raises ArchiveDamaged."""
    try:
        with (folder / TEXT).open(encoding="utf-8", newline="") as file:
            text = file.read(most)
    except UnicodeError as exc:
        raise ArchiveDamaged("A text of the archive is not UTF-8.") from exc
    if "\0" in text:
        raise ArchiveDamaged("A text of the archive has the character U+0000.")
    return text


def read_document(
    record: DocumentRecord, structure: Structure, folder: Path, kb: KnowledgeBaseView, embedder: Embedder
) -> ReadDocument:
    """Add vectors and words, which are analysed anew. Blocking. Raises ArchiveDamaged, TooManyTerms."""
    drafts = structure.drafts
    vectors = _vectors(folder / VECTORS, len(drafts), structure.unembedded, embedder.identity.dimensions)
    limit = embedder.max_tokens - embedder.special_tokens
    texts = passage_texts(record.title, drafts, count_tokens=embedder.count_tokens, limit=limit)
    require_wanted()
    language = document_language(kb.row.language, structure.text)
    return ReadDocument(
        tree=structure.tree(),
        drafts=drafts,
        token_counts=structure.token_counts,
        vectors=vectors,
        unembedded=frozenset(structure.unembedded),
        language=language,
        entries=lexical_entries(texts, language=language, index_id=kb.index.id, avgdl=kb.index.avgdl),
        shown=structure.shown,
    )


def _vectors(path: Path, chunks: int, unembedded: Collection[int], dimensions: int) -> npt.NDArray[Any]:
    """One for each chunk in half precision, zeros for one that has none; of unit length, as all that are stored."""
    count = chunks - len(unembedded)
    if path.stat().st_size != 2 * dimensions * count:
        raise ArchiveDamaged(f"{VECTORS} has another size than {count} vectors of {dimensions} dimensions.")
    found = np.fromfile(path, np.dtype("<f2")).reshape(count, dimensions)
    for start in range(0, count, _ROWS):
        require_wanted()
        lengths = np.linalg.norm(found[start : start + _ROWS].astype(np.float32), axis=1)
        # A comparison with NaN is False.
        if not np.all((lengths > ABOUT_ONE[0]) & (lengths < ABOUT_ONE[1])):
            raise ArchiveDamaged(f"{VECTORS} has vectors that are not finite or not of length one.")
    if not unembedded:
        return found
    vectors = np.zeros((chunks, dimensions), np.float16)
    vectors[[at for at in range(chunks) if at not in unembedded]] = found
    return vectors
