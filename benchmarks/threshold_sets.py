"""Passages and questions of the evaluation sets for ``benchmarks.threshold``, cut as the service cuts documents."""

import json
import random
import re
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any
from unicodedata import normalize

from app.cli.evaluation.datasets import ExcerptReference
from app.cli.evaluation.span_metrics import CorpusTexts, Range, count_overlap, merge_ranges
from app.inference.embedding import Embedder
from app.ingestion.chunkers import ChunkTools
from app.ingestion.chunking import chunk_document
from app.ingestion.embedding_text import contextualize_chunks
from app.ingestion.parsers import PARSERS, ParseOptions
from app.ingestion.tree import build_tree
from app.knowledge_bases.types import Chunking
from app.retrieval.conversation import build_conversation_queries
from app.retrieval.types import Message

SETS = ("scifact", "chroma-dev", "mtrag-un", "filings-dev")
MAX_ABSTRACTS = 1000
JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Passage:
    """Chunk of a document: its text, and the text that is embedded and indexed."""

    document: str
    text: str
    indexed_text: str


@dataclass(frozen=True, slots=True)
class PassageSet:
    """Passages and questions of one evaluation set.

    Attributes:
        name: Name of the set.
        passages: Chunks of all documents.
        questions: Queries of each question, by its id. A conversation has two, as in a search.
        compute_recall: Function that returns the recall of the first passages for a question's id.
    """

    name: str
    passages: Sequence[Passage]
    questions: dict[str, list[str]]
    compute_recall: Callable[[Sequence[int], str], float]


def read_lines(path: Path) -> list[JsonObject]:
    """Return the objects of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]


class Chopper:
    """Parser and chunker with the settings of a new knowledge base."""

    def __init__(self, embedder: Embedder, max_tokens: int) -> None:
        def refuse(_: Sequence[str]) -> Any:
            raise NotImplementedError("the chunker embeds nothing")

        self._tools = ChunkTools(embedder.count_tokens, refuse, embedder.max_tokens - embedder.special_tokens)
        self._chunking = Chunking(max_tokens=max_tokens)

    def cut_file(self, path: Path, media_type: str, document: str, title: str | None = None) -> list[Passage]:
        """Return the passages of a file."""
        parser = import_module(PARSERS[media_type].module)
        tree = build_tree(parser.parse(path, ParseOptions(None, max_pages=10_000, max_characters=100_000_000)))
        drafts, _ = chunk_document(tree, self._chunking, self._tools)
        texts = contextualize_chunks(
            title or tree.root.title,
            drafts,
            count_tokens=self._tools.count_tokens,
            max_tokens=self._tools.max_tokens,
            source="" if media_type == "text/plain" else document,
        )
        return [Passage(document, draft.content, text) for draft, text in zip(drafts, texts, strict=True)]

    def cut_documents(self, documents: Sequence[JsonObject]) -> Iterator[Passage]:
        """Yield the passages of plain texts."""
        with tempfile.TemporaryDirectory(prefix="carrel-threshold-") as folder:
            path = Path(folder) / "text.txt"
            for document in documents:
                if document["text"].strip():
                    path.write_text(document["text"], "utf-8")
                    yield from self.cut_file(path, "text/plain", document["id"], document.get("title"))


def load_set(name: str, data: Path, embedder: Embedder, max_tokens: int) -> PassageSet:
    """Load one evaluation set.

    Args:
        name: Name of the set.
        data: Directory of evaluation sets.
        embedder: Embedding model, whose tokens are counted.
        max_tokens: Maximum size of a chunk.
    """
    load = {"chroma-dev": _load_excerpts, "filings-dev": _load_filings}.get(name, _load_documents)
    return load(data / name, Chopper(embedder, max_tokens))


def _load_documents(folder: Path, chopper: Chopper) -> PassageSet:
    """Load a set whose relevant documents are named. Of many documents, a sample is loaded."""
    rows = [line.split("\t") for line in (folder / "qrels.tsv").read_text("utf-8").splitlines()[1:] if line]
    relevant: dict[str, set[str]] = defaultdict(set)
    for query, document, score in rows:
        if float(score) > 0:
            relevant[query].add(document)
    corpus = read_lines(folder / "corpus.jsonl")
    if folder.name == "scifact":
        corpus = _sample(corpus, {document for documents in relevant.values() for document in documents})
    passages = list(chopper.cut_documents(corpus))

    def compute_recall(ranking: Sequence[int], query: str) -> float:
        return len(relevant[query] & {passages[index].document for index in ranking}) / len(relevant[query])

    questions = {
        line["id"]: _list_queries(line) for line in read_lines(folder / "queries.jsonl") if relevant[line["id"]]
    }
    return PassageSet(folder.name, passages, questions, compute_recall)


def _sample(corpus: Sequence[JsonObject], relevant: set[str]) -> list[JsonObject]:
    others = [document for document in corpus if document["id"] not in relevant]
    chosen = random.Random(1).sample(others, MAX_ABSTRACTS - len(relevant))
    return [document for document in corpus if document["id"] in relevant] + chosen


def _list_queries(line: JsonObject) -> list[str]:
    if "history" not in line:
        return [line["text"]]
    messages = [Message(item["role"], item["content"]) for item in line["history"]]
    return build_conversation_queries([*messages, Message("user", line["text"])])


def _load_excerpts(folder: Path, chopper: Chopper) -> PassageSet:
    """Load a set whose relevant excerpts are named; recall is the share of their characters."""
    corpus = read_lines(folder / "corpus.jsonl")
    passages = list(chopper.cut_documents(corpus))
    texts = CorpusTexts({document["id"]: document["text"] for document in corpus})
    spans = [texts.locate(passage.document, passage.text) for passage in passages]
    expected: dict[str, list[ExcerptReference]] = defaultdict(list)
    for line in read_lines(folder / "references.jsonl"):
        expected[line["query"]].append(ExcerptReference.model_validate(line))
    ranges = {query: texts.locate_references(references) for query, references in expected.items()}

    def compute_recall(ranking: Sequence[int], query: str) -> float:
        retrieved: dict[str, list[Range]] = defaultdict(list)
        for index in ranking:
            if (span := spans[index]) is not None:
                retrieved[passages[index].document].append(span)
        hits = sum(count_overlap(merge_ranges(retrieved[name]), wanted) for name, wanted in ranges[query].items())
        return hits / sum(end - start for wanted in ranges[query].values() for start, end in wanted)

    questions = {line["id"]: [line["text"]] for line in read_lines(folder / "queries.jsonl") if line["id"] in ranges}
    return PassageSet(folder.name, passages, questions, compute_recall)


def _load_filings(folder: Path, chopper: Chopper) -> PassageSet:
    """Load a set of PDF files. A question counts if one passage of its file has all figures that it needs."""
    passages = [
        passage
        for path in sorted(folder.glob("*.pdf"))
        for passage in chopper.cut_file(path, "application/pdf", path.name)
    ]
    plain = [re.sub(r"[\s|*\\]+", " ", normalize("NFKC", passage.text).casefold()) for passage in passages]
    probes = {line["id"]: line for line in read_lines(folder / "probes.jsonl")}
    patterns = {
        name: [re.compile(rf"(?<![\d,.]){re.escape(figure)}(?![,.]?\d)") for figure in probe["needs"]]
        for name, probe in probes.items()
    }

    def compute_recall(ranking: Sequence[int], query: str) -> float:
        candidates = [index for index in ranking if passages[index].document == probes[query]["file"]]
        return float(any(all(figure.search(plain[index]) for figure in patterns[query]) for index in candidates))

    questions = {name: [probe["question"]] for name, probe in probes.items()}
    return PassageSet(folder.name, passages, questions, compute_recall)
