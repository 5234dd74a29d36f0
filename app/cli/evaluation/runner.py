"""Concurrent searches of a running service, and the parts of the responses that the measures need."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from carrel_client import ApiError, Client

from app.cli.endpoint import parse_json
from app.cli.evaluation.datasets import EvaluationQuery
from app.cli.evaluation.span_metrics import CorpusTexts, RetrievedChunk
from app.errors import InvalidInputError

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")
EXTERNAL_ID = "external_id"
NAMING_FIELDS = ("source", "title")
METADATA_PREFIX = "metadata."
# Fields of the query. A search configuration may not have them: `queries` would change every search, and the other
# fields would be ignored.
QUERY_FIELDS = ("query", "queries", "messages")
# The maximum that the service allows: the evaluation measures results, not time.
SEARCH_TIMEOUT_SECONDS = 60


class InvalidSearchConfig(InvalidInputError):
    """A setting is NAME={…}, with the body of a search request."""

    code = "invalid_search_config"


class InvalidDocumentNaming(InvalidInputError):
    """--documents is external_id, source, title or metadata.KEY."""

    code = "invalid_document_naming"


@dataclass(frozen=True, slots=True)
class SearchConfig:
    """Named search configuration: the fields of the request without the query."""

    name: str
    body: Mapping[str, Any]

    @property
    def knowledge_bases(self) -> list[str]:
        """Names of the knowledge bases to search."""
        return list(self.body["knowledge_bases"])


@dataclass(frozen=True, slots=True)
class QueryResult:
    """Result of one query: documents ranked by their best passage, the first passages, and warnings. If the service
    refused the search: the problem.
    """

    documents: tuple[str, ...] = ()
    chunks: tuple[RetrievedChunk, ...] = ()
    warning_codes: tuple[str, ...] = ()
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class DocumentNaming:
    """Naming of found documents as in the judgements. ``by_id`` has external IDs, which search results lack."""

    kind: str
    by_id: Mapping[str, str]

    def get_name(self, document: Mapping[str, Any]) -> str:
        """Return the document's name in the judgements, or its id, which no judgement has."""
        if self.kind in NAMING_FIELDS:
            name = document[self.kind]
        elif self.kind.startswith(METADATA_PREFIX):
            name = _get_metadata_value(document["metadata"], self.kind.removeprefix(METADATA_PREFIX))
        else:
            name = self.by_id.get(document["id"])
        return document["id"] if name is None else str(name)


@dataclass(frozen=True, slots=True)
class StoredTextCache:
    """Cache of the stored texts of found documents."""

    client: Client
    texts: dict[str, str] = field(default_factory=dict)

    def get(self, result: Mapping[str, Any]) -> str:
        """Return the stored text of a result's document, or an empty text if the service does not return it.

        The service refuses if another version is live, or if the document is shared.
        """
        kb, document, root = result["knowledge_base"], result["document"]["id"], result["node_path"][0]
        if root not in self.texts:
            try:
                node = self.client.get("knowledge-bases", kb, "documents", document, "nodes", root)
                self.texts[root] = node["text"]
            except ApiError:
                self.texts[root] = ""
        return self.texts[root]


def check_naming(kind: str) -> str:
    """Check the name of a document field, and return it. Raises InvalidDocumentNaming."""
    if kind not in (EXTERNAL_ID, *NAMING_FIELDS) and not (kind.startswith(METADATA_PREFIX) and kind != METADATA_PREFIX):
        raise InvalidDocumentNaming
    return kind


def parse_config(text: str, *, kb: str | None, top_k: int) -> SearchConfig:
    """Parse NAME={…} and return the search configuration.

    Args:
        text: Name and request body of the search configuration.
        kb: Knowledge base, if the body names no knowledge base. None searches all knowledge bases.
        top_k: Number of results, if the body has no ``top_k``.

    Raises:
        InvalidSearchConfig: The text is not NAME={…}, or the body has a field of the query.
    """
    name, _, encoded = text.partition("=")
    try:
        body = parse_json(encoded)
    except (ValueError, RecursionError) as exc:
        raise InvalidSearchConfig(f"--setting {name}: not NAME=JSON") from exc
    if not name or not isinstance(body, dict):
        raise InvalidSearchConfig
    for key in QUERY_FIELDS:
        if key in body:
            raise InvalidSearchConfig(
                f"--setting {name}: {key} is not set here; remove it, because the queries come from the evaluation set"
            )
    searched = {} if kb is None else {"knowledge_bases": [kb]}
    merged = {**searched, "top_k": top_k, "timeout_seconds": SEARCH_TIMEOUT_SECONDS, **body}
    names = merged.get("knowledge_bases", [])
    if not isinstance(names, list) or not all(isinstance(kb_name, str) for kb_name in names):
        raise InvalidSearchConfig(f"--setting {name}: knowledge_bases is a list of names")
    return SearchConfig(name, merged)


def find_documents(
    client: Client, knowledge_bases: Iterable[str], external_ids: Iterable[str], *, concurrency: int
) -> Iterator[tuple[str, list[str]]]:
    """Yield each external ID with the IDs of its searchable documents, an empty list if there is none."""
    kb_names = list(knowledge_bases)

    def find_ids(external_id: str) -> tuple[str, list[str]]:
        params = {"external_id": external_id, "limit": 200}
        pages = [client.get("knowledge-bases", kb, "documents", params=params) for kb in kb_names]
        live = (document for page in pages for document in page["items"] if document["live_version"] is not None)
        return external_id, [document["id"] for document in live]

    yield from map_concurrently(find_ids, list(external_ids), concurrency=concurrency)


def run_queries(
    client: Client,
    queries: Sequence[EvaluationQuery],
    config: SearchConfig,
    naming: DocumentNaming,
    *,
    texts: CorpusTexts,
    max_chunks: int,
    concurrency: int,
) -> Iterator[tuple[str, QueryResult]]:
    """Run all queries with one configuration, and yield the result of each query in order.

    Args:
        client: Client of the service.
        queries: Queries to run.
        config: Search configuration.
        naming: Naming of documents as in the judgements.
        texts: Texts of the documents. If a passage occurs more than once in its document, the result gets the
            document's stored text too.
        max_chunks: Number of passages to keep of each result.
        concurrency: Number of searches at the same time.

    Raises:
        ConnectionFailed: The service does not answer.
    """
    stored = StoredTextCache(client)

    def to_chunk(name: str, result: Mapping[str, Any]) -> RetrievedChunk:
        is_ambiguous = texts.is_ambiguous(name, result["text"])
        return RetrievedChunk(name, result["text"], result["start"], stored.get(result) if is_ambiguous else "")

    def run_query(query: EvaluationQuery) -> tuple[str, QueryResult]:
        try:
            reply = client.post("search", body={**config.body, **query.search_body})
        except ApiError as exc:
            return query.id, QueryResult(problem=str(exc))
        names = [naming.get_name(result["document"]) for result in reply["results"]]
        first_results = zip(names[:max_chunks], reply["results"], strict=False) if query.references else ()
        return query.id, QueryResult(
            documents=tuple(dict.fromkeys(names)),
            chunks=tuple(to_chunk(name, result) for name, result in first_results),
            warning_codes=tuple(dict.fromkeys(warning["code"] for warning in reply["warnings"])),
        )

    yield from map_concurrently(run_query, queries, concurrency=concurrency)


def map_concurrently(
    work: Callable[[ItemT], ResultT], items: Sequence[ItemT], *, concurrency: int
) -> Iterator[ResultT]:
    """Call a function for items concurrently, and yield the results in order. No item starts after the first error."""
    with ThreadPoolExecutor(concurrency) as pool:
        yield from pool.map(work, items)


def _get_metadata_value(metadata: Any, path: str) -> Any:
    for key in path.split("."):
        metadata = metadata.get(key) if isinstance(metadata, dict) else None
    return metadata
