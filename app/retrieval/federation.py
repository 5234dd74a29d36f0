"""Search of HTTP sources, which runs at the same time as the retrievers (KIMAs: Li et al., 2025, arXiv:2502.09596)."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self
from uuid import UUID

from app.errors import UnavailableError
from app.http_sources.types import SourceQuery, SourceResult, SourceUnavailable
from app.ids import derive_id
from app.inference.chat import ChatModel
from app.inference.embedding.model_registry import Embedders
from app.knowledge_bases.types import KnowledgeBaseView
from app.logging import get_logger
from app.retrieval import time_budget
from app.retrieval.conversation import build_conversation_queries, is_conversation_used
from app.retrieval.explain import ExplainedIndex
from app.retrieval.fusion.merge_sources import SourceHits, get_normalized_text, merge_sources
from app.retrieval.hit_parts import HitChunk, HitDocument
from app.retrieval.lazy_metadata import LazyMetadata
from app.retrieval.query_embedding import QueryEmbedder, Vector, build_no_usable_queries_error
from app.retrieval.query_transformation import Conversation, CorpusContext, QueryTransformer
from app.retrieval.search_run import THRESHOLD_NOT_APPLIED, SearchRun, get_failure_reason
from app.retrieval.transformers import TransformerStep, resolve_steps, resolve_stored_steps
from app.retrieval.types import (
    ChunkKey,
    Hit,
    Query,
    SearchRequest,
    SearchUnavailable,
)
from app.source_kinds.pgvector import find_source_embedder
from app.warnings import ServiceWarning, WarningCode

logger = get_logger(__name__)

# Limits of one search, so that it does not cause hundreds of requests. The first sources and queries are used.
MAX_SOURCES, MAX_QUERIES, MAX_RESULTS = 8, 4, 100
IMAGE_QUERIES_NOT_SENT = ServiceWarning(
    WarningCode.IMAGE_QUERIES_SKIPPED, "Image queries were skipped: HTTP sources take text only."
)
STORED_DOCUMENTS_SKIPPED = ServiceWarning(
    WarningCode.STORED_DOCUMENTS_SKIPPED, "The knowledge bases with stored documents could not be searched."
)
LocalSearch = Callable[[], Awaitable[list[Hit]]]
EmbedForSource = Callable[[KnowledgeBaseView, Sequence[str]], Awaitable[list[Vector | None]]]


class QueriedSources(Protocol):
    """Clients of all kinds of sources."""

    async def query(
        self, source: Any, source_query: SourceQuery, *, tenant_id: UUID, kb_id: UUID, timeout_seconds: float
    ) -> list[SourceResult]:
        """Send a query to a source and return its first results. Raises SourceUnavailable."""


async def embed_for_source(
    query_embedder: QueryEmbedder, embedders: Embedders, view: KnowledgeBaseView, texts: Sequence[str]
) -> list[Vector | None]:
    """Return the vectors of queries for a source; None for a query that was not embedded, with a warning.

    Args:
        query_embedder: Embedder of the search.
        embedders: Embedders of the process.
        view: Knowledge base of a source that takes vectors.
        texts: The queries.
    """
    source = view.source
    assert source is not None and source.embedding_model is not None  # noqa: PT018  (the source takes vectors)
    embedder = find_source_embedder(embedders, source.embedding_model, source.embedding_dimensions)
    skipped = f"{_format_names([view])} skipped"
    if embedder is None:
        message = f"{skipped}: the service no longer has its embedding model."
        query_embedder.search_run.warn(ServiceWarning(WarningCode.EMBEDDING_MODEL_MISMATCH, message))
        return [None for _ in texts]
    return await query_embedder.embed(
        embedder,
        [Query(text) for text in texts],
        required=False,
        unavailable_message="The embedding model did not answer in time",
        fallback_message=skipped,
    )


@dataclass(frozen=True, slots=True)
class FederatedSearch:
    """Search of the HTTP sources of one request.

    Attributes:
        sources: Clients of all kinds of sources.
        chat: Chat model for transformers; None if none is configured.
        search_run: Deadline, timings and warnings of the search.
        request: The search request.
        views: Knowledge bases with a source to search.
        embed: Returns the vectors of queries for a source that takes vectors.
        queries_by_source: Texts that were sent to each source, by the id of its knowledge base.
    """

    sources: QueriedSources
    chat: ChatModel | None
    search_run: SearchRun
    request: SearchRequest
    views: Sequence[KnowledgeBaseView]
    embed: EmbedForSource | None = None
    queries_by_source: dict[UUID, list[str]] = field(default_factory=dict)

    @classmethod
    def from_views(
        cls,
        sources: QueriedSources,
        chat: ChatModel | None,
        search_run: SearchRun,
        request: SearchRequest,
        views: Sequence[KnowledgeBaseView],
        *,
        embed: EmbedForSource | None = None,
    ) -> Self:
        """Select the HTTP sources of a search.

        If a shared knowledge base has the name of a searched knowledge base, it is searched too.

        A search with a filter uses no HTTP source, because a filter cannot be applied to the results of a source. The
        caller gets a notice, and the results count as complete.

        Args:
            sources: Clients of all kinds of sources.
            chat: Chat model for transformers.
            search_run: Deadline, timings and warnings of the search.
            request: The search request.
            views: Knowledge bases of the search, of all kinds.
            embed: Returns the vectors of queries for a source that takes vectors.

        Returns:
            The federated search, with at most ``MAX_SOURCES`` sources.
        """
        source_views = [
            candidate
            for view in views
            for candidate in (view, view.shared_counterpart)
            if candidate is not None and candidate.row.source is not None
        ]
        if source_views and (request.filter or any(candidate.row.enforced_filter for candidate in source_views)):
            message = (
                f"{_format_names(source_views)} skipped: a filter cannot be applied to the results of an HTTP source."
            )
            search_run.add_notice(ServiceWarning(WarningCode.HTTP_SOURCE_NOT_FILTERABLE, message))
            source_views = []
        if len(source_views) > MAX_SOURCES:
            names = _format_names(source_views[MAX_SOURCES:])
            message = f"{names} skipped: a search uses at most {MAX_SOURCES} HTTP sources."
            search_run.warn(ServiceWarning(WarningCode.HTTP_SOURCE_LIMIT_REACHED, message))
        return cls(sources, chat, search_run, request, source_views[:MAX_SOURCES], embed)

    async def run_with(
        self,
        local_search: LocalSearch | None,
        queries: Sequence[Query],
        *,
        top_k: int,
        get_weight: Callable[[Sequence[Hit]], float],
    ) -> list[SourceHits]:
        """Run the local search and query the HTTP sources at the same time.

        If a source or the local search fails, the caller gets a warning. An error is raised only if all parts fail.

        Args:
            local_search: Search of the stored documents; None if there are none to search.
            queries: Queries of the search.
            top_k: Maximum number of results of each source, at most ``MAX_RESULTS``.
            get_weight: Function that returns the weight of the local hits in the merge of sources.

        Returns:
            The hits of the local search, then the hits of each HTTP source that has results.

        Raises:
            InvalidInputError: Only HTTP sources are searched, and no query has a text.
            UnavailableError: The local search failed, and no HTTP source has results.
            SearchUnavailable: Only HTTP sources are searched, and none answered.
        """
        if not self.views or not queries:
            hits = await local_search() if local_search else []
            return [SourceHits(get_weight(hits), hits)]
        if all(query.image is not None for query in queries):  # no HTTP source takes images
            self.search_run.warn(IMAGE_QUERIES_NOT_SENT)
            hits = await local_search() if local_search else []
            return [SourceHits(get_weight(hits), hits)]
        if local_search is None and all(query.text is None for query in queries):
            raise build_no_usable_queries_error()
        source_task = asyncio.create_task(self._query_sources(queries, min(top_k, MAX_RESULTS)))
        try:
            hits, failure = await self._run_local_search(local_search)
            results = await source_task
        finally:
            source_task.cancel()  # the local search may have raised an error; cancelling a finished task has no effect
        source_hits = [
            SourceHits(view.weight, view_hits) for view, view_hits in zip(self.views, results, strict=True) if view_hits
        ]
        if failure is not None and not source_hits:
            raise failure
        if local_search is None and all(view_hits is None for view_hits in results):
            raise SearchUnavailable
        if failure is not None:
            logger.warning("search.retrievers_failed", error=failure)
            self.search_run.warn(STORED_DOCUMENTS_SKIPPED)
        if source_hits and self.request.score_threshold is not None:
            self.search_run.warn(THRESHOLD_NOT_APPLIED)
        return [SourceHits(get_weight(hits), hits), *source_hits]

    def explain_sources(self) -> list[ExplainedIndex]:
        """Return the explanation of each source, with the texts that were sent to it."""
        return [self._explain_source(view) for view in self.views]

    def _explain_source(self, view: KnowledgeBaseView) -> ExplainedIndex:
        queries = self.queries_by_source.get(view.row.id, ())
        silent_run = replace(self.search_run, notices=[], degraded_steps={})  # the search has reported its notices
        steps = self._resolve_steps(view, silent_run)
        prompt = view.retrieval.get_active_prompt("rewrite", owner=view.row.name)
        has_prompt = prompt is not None and any(step.transformer.takes_prompt for step in steps)
        return ExplainedIndex(
            view.row.name,
            view.is_shared,
            None,
            None,
            queries,
            queries=queries,
            transformers=[step.transformer.name for step in steps],
            uses_conversation=is_conversation_used(self.request, view.retrieval),
            prompts={"rewrite": prompt} if has_prompt and prompt is not None else {},
        )

    async def _run_local_search(self, local_search: LocalSearch | None) -> tuple[list[Hit], UnavailableError | None]:
        try:
            return (await local_search() if local_search else []), None
        except UnavailableError as exc:
            return [], exc

    async def _query_sources(self, queries: Sequence[Query], top_k: int) -> list[list[Hit] | None]:
        """Return the hits of each source, or None for a source that did not answer."""
        with self.search_run.time_step("http_sources"):
            return await asyncio.gather(*(self._query_source(view, queries, top_k) for view in self.views))

    async def _query_source(self, view: KnowledgeBaseView, queries: Sequence[Query], top_k: int) -> list[Hit] | None:
        texts = await self._build_query_texts(view, queries)
        self.queries_by_source[view.row.id] = texts
        if not texts:
            message = f"{_format_names([view])} skipped: an HTTP source needs a query with text."
            self.search_run.warn(ServiceWarning(WarningCode.HTTP_SOURCE_NEEDS_TEXT, message))
        source_queries = await self._build_source_queries(view, texts, top_k)
        answers = await asyncio.gather(*(self._send_query(view, source_query) for source_query in source_queries))
        answered = [answer for answer in answers if answer is not None]
        return _build_hits(view, answered) if answered else None

    async def _build_source_queries(
        self, view: KnowledgeBaseView, texts: Sequence[str], top_k: int
    ) -> list[SourceQuery]:
        """Return the queries in the form that the kind of the source takes.

        A source that takes conversations gets the messages once if they are the source of the queries.
        """
        source = view.source
        assert source is not None  # every view of this search has a source
        has_conversation = self.request.messages and not self.request.queries
        if source.takes_conversation and has_conversation and is_conversation_used(self.request, view.retrieval):
            messages = [(message.role, message.content) for message in self.request.messages]
            return [SourceQuery(text, top_k, messages) for text in texts[:1]]
        if source.embedding_model is None or self.embed is None:
            return [SourceQuery(text, top_k) for text in texts]
        vectors = await self.embed(view, texts) if texts else []
        return [
            SourceQuery(text, top_k, vector=vector.tolist())
            for text, vector in zip(texts, vectors, strict=True)
            if vector is not None
        ]

    async def _build_query_texts(self, view: KnowledgeBaseView, queries: Sequence[Query]) -> list[str]:
        """Rewrite the queries with the transformers of a source, or with the default transformer.

        If the request names transformers, they have rewritten the queries already.
        """
        if not self.request.queries and not is_conversation_used(self.request, view.retrieval):
            queries = [Query(text) for text in build_conversation_queries(self.request.messages)[:1]]
        texts = [Query(query.text) for query in queries if query.text is not None][:MAX_QUERIES]
        # The time of these transformers counts as time of the HTTP sources. The default transformer was not requested,
        # so its notices are dropped.
        view_transformers = view.retrieval.transformers
        search_run = replace(self.search_run, timings_ms={})
        search_run = search_run if view_transformers is not None else replace(search_run, notices=[], degraded_steps={})

        async def get_corpus_context() -> CorpusContext:
            return CorpusContext(view.languages)

        query_transformer = QueryTransformer(
            self.chat, search_run, get_corpus_context, view.retrieval.rewrite_prompt, uses_default_transformers=True
        )
        conversation = Conversation(self.request.messages, is_query_source=not self.request.queries)
        transformed, _ = await query_transformer.run(self._resolve_steps(view, self.search_run), texts, conversation)
        return [query.text for query in transformed if query.text][:MAX_QUERIES]

    def _resolve_steps(self, view: KnowledgeBaseView, search_run: SearchRun) -> list[TransformerStep]:
        view_transformers = view.retrieval.transformers
        if self.request.transformers is not None:
            return []
        stored_steps = None if view_transformers is None else resolve_stored_steps(view_transformers, search_run)
        if stored_steps is not None or view.source is None:
            return stored_steps or []
        return resolve_steps(view.source.default_transformers, loc=())

    async def _send_query(self, view: KnowledgeBaseView, source_query: SourceQuery) -> list[SourceResult] | None:
        source, row = view.source, view.row
        assert source is not None  # every view of this search has a source
        timeout_seconds = self.search_run.remaining_seconds * time_budget.HTTP_SOURCES
        try:
            return await self.sources.query(
                source, source_query, tenant_id=row.tenant_id, kb_id=row.id, timeout_seconds=timeout_seconds
            )
        except SourceUnavailable as exc:
            logger.warning("search.http_source_failed", knowledge_base=str(row.id), error=exc)
            self.search_run.degrade("http_source", get_failure_reason(exc))
            message = f"{_format_names([view])} skipped. {exc.message}"
            self.search_run.warn(ServiceWarning(WarningCode.HTTP_SOURCE_UNAVAILABLE, message))
            return None


def _build_hits(view: KnowledgeBaseView, answers: Sequence[Sequence[SourceResult]]) -> list[Hit]:
    """Build the hits of one source, best first, without repeated texts.

    The hits have the scores of the source if every result has a score. Otherwise the score follows from the position.
    """
    scored = all(result.score is not None for answer in answers for result in answer)
    hits = [
        _build_hit(view, result, result.score if scored and result.score is not None else 1 - position / len(answer))
        for answer in answers
        for position, result in enumerate(answer)
    ]
    best: dict[str | ChunkKey, Hit] = {}
    for hit in merge_sources([SourceHits(1.0, hits)]):
        best.setdefault(get_normalized_text(hit) or hit.key, hit)
    return list(best.values())


def _build_hit(view: KnowledgeBaseView, result: SourceResult, score: float) -> Hit:
    """Build a hit with a document of one chunk. Equal results get equal ids, so that ties are always resolved alike."""
    key = derive_id(view.row.id, result.url, result.text)
    source_name = result.url or result.title or view.row.name
    entries = {
        "$source": source_name,
        "$title": result.title,
        "$source_uri": result.url,
        "$suspicious": list(result.flags),
    }
    metadata = LazyMetadata.from_entries(entries)
    chunk = HitChunk(
        id=key,
        version=0,
        ordinal=0,
        content=result.text,
        start=0,
        end=len(result.text),
        page=None,
        page_end=None,
        slide=None,
        section_titles=[],
        node_path=[],
        image_ordinal=None,
        media_type=None,
        metadata=metadata,
    )
    document = HitDocument(
        tenant_id=view.row.tenant_id,
        id=key,
        chunk_count=1,
        metadata=metadata,
    )
    return Hit(view.index.id.bytes + key.bytes, chunk, document, view.row.name, score, None, is_external=True)


def _format_names(views: Sequence[KnowledgeBaseView]) -> str:
    names = ", ".join(dict.fromkeys(repr(view.row.name) for view in views))
    return f"{names} was" if len(views) == 1 else f"{names} were"
