"""The files of a document in an archive as what ingestion would have made of it; nobody has to be honest."""

from array import array
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from app.inference.embedding import Embedder, Vectors
from app.ingestion.passages import passage_texts
from app.ingestion.types import ChunkDraft, DocumentTree, NodeKind, PrintedLines, TreeNode
from app.knowledge_bases.types import KnowledgeBaseView
from app.lexical.languages import document_language, lexical_entries
from app.lexical.weights import LexicalEntry
from app.transfer.records import (
    CHUNKS,
    NODES,
    PAGES,
    TEXT,
    VECTORS,
    ChunkRecord,
    DocumentRecord,
    NodeRecord,
    PageRecord,
    read_records,
)
from app.transfer.types import MOST_CHUNKS, MOST_NODES, ArchiveDamaged

# What single precision and halves leave of a length of one.
ABOUT_ONE = (0.97, 1.03)
# A character has at most four bytes, but one ligature is normalized to eighteen letters.
TOKENS_A_CHARACTER = 32


@dataclass(frozen=True, slots=True)
class ReadDocument:
    """What is indexed of a document; the sequences run parallel, ``shown`` are pictures' numbers by their chunks'."""

    tree: DocumentTree
    drafts: Sequence[ChunkDraft]
    token_counts: Sequence[int]
    vectors: Vectors
    unembedded: frozenset[int]
    language: str
    entries: Sequence[LexicalEntry]
    shown: Mapping[int, int]


def read_document(record: DocumentRecord, folder: Path, kb: KnowledgeBaseView, embedder: Embedder) -> ReadDocument:
    """From its files in ``folder``; words are analysed anew. Blocking. Raises ArchiveDamaged, TooManyTerms."""
    text = _text((folder / TEXT).read_bytes())
    tree, places = _tree(text, folder)
    chunks = read_records(ChunkRecord, (folder / CHUNKS).read_bytes(), CHUNKS, most=MOST_CHUNKS)
    fixed = kb.row.stamp.keys()
    drafts = [_draft(chunk, text, places, fixed) for chunk in chunks]
    if not drafts:
        raise ArchiveDamaged("A document of the archive has no chunks.")
    numbers = {picture.number for picture in record.pictures}
    shown = {at: chunk.picture for at, chunk in enumerate(chunks) if chunk.picture is not None}
    if not numbers.issuperset(shown.values()):
        raise ArchiveDamaged("A chunk of the archive shows a picture that is not there.")
    limit = embedder.max_tokens - embedder.special_tokens
    texts = passage_texts(record.title, drafts, count_tokens=embedder.count_tokens, limit=limit)
    language = document_language(kb.row.language, text)
    return ReadDocument(
        tree=tree,
        drafts=drafts,
        token_counts=[chunk.tokens for chunk in chunks],
        vectors=_vectors((folder / VECTORS).read_bytes(), chunks, embedder.identity.dimensions),
        unembedded=frozenset(at for at, chunk in enumerate(chunks) if not chunk.embedded),
        language=language,
        entries=lexical_entries(texts, language=language, index_id=kb.index.id, avgdl=kb.index.avgdl),
        shown=shown,
    )


def _text(content: bytes) -> str:
    try:
        text = content.decode()
    except UnicodeError as exc:
        raise ArchiveDamaged("A text of the archive is not UTF-8.") from exc
    if "\0" in text:
        raise ArchiveDamaged("A text of the archive has the character U+0000.")
    return text


def _tree(text: str, folder: Path) -> tuple[DocumentTree, set[tuple[int, ...]]]:
    """The tree, and its nodes' paths."""
    made: dict[tuple[int, ...], TreeNode] = {}
    for row in read_records(NodeRecord, (folder / NODES).read_bytes(), NODES, most=MOST_NODES):
        node = TreeNode(row.kind, row.level, row.start, row.end, path=row.path, title=row.title, block=row.block)
        node.page, node.page_end, node.slide = row.page, row.page_end, row.slide
        is_known = row.path in made or not row.start <= row.end <= len(text)
        if is_known or (bool(row.path) and row.path[:-1] not in made) or (not row.path and made):
            raise ArchiveDamaged("A tree of the archive does not hang together.")
        if row.path:
            made[row.path[:-1]].children.append(node)
        made[row.path] = node
    if () not in made or made[()].kind is not NodeKind.DOCUMENT:
        raise ArchiveDamaged("A tree of the archive has no root.")
    return DocumentTree(text, made[()], _printed(text, folder)), set(made)


def _printed(text: str, folder: Path) -> dict[int, PrintedLines]:

    printed: dict[int, PrintedLines] = {}
    for row in read_records(PageRecord, (folder / PAGES).read_bytes(), PAGES, most=MOST_CHUNKS):
        ranges = zip(row.lines[::6], row.lines[1::6], strict=False)
        if row.page in printed or len(row.lines) % 6 or any(not 0 <= a <= b <= len(text) for a, b in ranges):
            raise ArchiveDamaged("A printed page of the archive is not of its text.")
        printed[row.page] = PrintedLines(row.width, row.height, array("i", row.lines))
    return printed


def _draft(chunk: ChunkRecord, text: str, places: set[tuple[int, ...]], fixed: Collection[str]) -> ChunkDraft:
    if not chunk.start < chunk.end <= len(text) or chunk.path not in places:
        raise ArchiveDamaged("A chunk of the archive is not of its document.")
    if chunk.tokens > TOKENS_A_CHARACTER * (chunk.end - chunk.start):
        raise ArchiveDamaged("A chunk of the archive has more tokens than its text can have.")
    return ChunkDraft(
        text[chunk.start : chunk.end],
        chunk.start,
        chunk.end,
        section_titles=chunk.sections,
        page=chunk.page,
        page_end=chunk.page_end,
        slide=chunk.slide,
        node_path=chunk.path,
        metadata={key: value for key, value in chunk.metadata.items() if key not in fixed},
    )


def _vectors(content: bytes, chunks: Sequence[ChunkRecord], dimensions: int) -> Vectors:
    """One for each chunk, zeros for one that has none; of unit length, as all are that are stored."""
    embedded = [at for at, chunk in enumerate(chunks) if chunk.embedded]
    if len(content) != 2 * dimensions * len(embedded):
        raise ArchiveDamaged(f"{VECTORS} has another size than {len(embedded)} vectors of {dimensions} dimensions.")
    found = np.frombuffer(content, np.dtype("<f2")).reshape(len(embedded), dimensions).astype(np.float32)
    lengths = np.linalg.norm(found, axis=1)
    # A comparison with NaN is False.
    if not np.all((lengths > ABOUT_ONE[0]) & (lengths < ABOUT_ONE[1])):
        raise ArchiveDamaged(f"{VECTORS} has vectors that are not finite or not of length one.")
    vectors = np.zeros((len(chunks), dimensions), np.float32)
    vectors[embedded] = found
    return vectors
