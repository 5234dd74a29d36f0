"""Search in a vector store."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field, StringConstraints

from app.api.dependencies import AuthenticatedRoute, CurrentReader, CurrentResources
from app.api.http import example_values
from app.api.http.large_responses import create_hits_response
from app.api.http.path_parameters import VectorStorePath
from app.api.http.request_models import STORABLE
from app.api.http.search_quota import search_with_quota, to_public_scores
from app.api.http.warning_schema import WarningOut, to_warnings_out
from app.api.openai.errors import ERROR_RESPONSES
from app.api.openai.filters import VectorStoreFilter, translate_filter
from app.api.openai.schemas import OpenAiRequestModel
from app.api.openai.vector_store_files import TextContentOut, flatten_attributes
from app.documents.scopes import DocumentScope
from app.errors import InvalidInputError
from app.filters import compile_filter
from app.ids import encode_id
from app.retrieval.quota import require_complete
from app.retrieval.types import Hit, NamedTransformer, Query, SearchRequest

# The tag "search" marks routes that change nothing: ``AuthenticatedRoute`` adds no idempotency key to them.
router = APIRouter(
    prefix="/vector_stores/{kb}/search",
    tags=["openai vector stores", "search"],
    route_class=AuthenticatedRoute,
    responses=ERROR_RESPONSES,
)
QueryText = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=32_000), STORABLE]
REWRITE_TRANSFORMER = "multi_query"


class HybridWeights(OpenAiRequestModel):
    """Weights of the retrievers. Only their ratio matters; one of them must be above 0."""

    embedding_weight: float = Field(
        ge=0, le=1_000_000, description="Weight of the dense retriever, 0 to 1,000,000.", examples=[0.6]
    )
    text_weight: float = Field(
        ge=0, le=1_000_000, description="Weight of the lexical retriever, 0 to 1,000,000.", examples=[0.4]
    )

    def compute_dense_weight(self) -> float:
        """Return the weight of the dense retriever as a share of both weights, 0 to 1. Raises InvalidInputError."""
        total = self.embedding_weight + self.text_weight
        if total == 0:
            raise InvalidInputError(
                "One of the weights must be above 0.", loc=("body", "ranking_options", "hybrid_search")
            )
        return self.embedding_weight / total


class RankingOptions(OpenAiRequestModel):
    """Options of the ranking."""

    ranker: Literal["none", "auto", "default-2024-11-15"] = Field(
        "auto",
        description="`auto` and `default-2024-11-15` use the configured reranker, if there is one; `none` uses none.",
        examples=["auto"],
    )
    score_threshold: float | None = Field(
        None,
        ge=0,
        le=1,
        description="Minimum cosine similarity of a result, 0 to 1; 0 and null set none.",
        examples=[0.3],
    )
    hybrid_search: HybridWeights | None = Field(
        None, description="Weights of the retrievers.", examples=[{"embedding_weight": 0.6, "text_weight": 0.4}]
    )


class VectorStoreSearchRequest(OpenAiRequestModel):
    """Search in a vector store."""

    query: QueryText | Annotated[list[QueryText], Field(min_length=1, max_length=16)] = Field(
        description="Text to search for, 1 to 32,000 characters, or 1 to 16 texts that are searched together.",
        examples=["How many days of parental leave are there?"],
    )
    filters: VectorStoreFilter | None = Field(
        None,
        description="Filter on attributes: a comparison, or `and` and `or` of filters.",
        examples=[{"type": "eq", "key": "department", "value": "hr"}],
    )
    max_num_results: int = Field(10, ge=1, le=50, description="Maximum number of results, 1 to 50.", examples=[10])
    ranking_options: RankingOptions = Field(
        RankingOptions(), description="Ranking of results.", examples=[{"ranker": "auto"}]
    )
    rewrite_query: bool = Field(False, description="Let the chat model add other forms of the query.", examples=[False])

    def to_search_request(self, kb: str, *, user_id: str | None, has_reranker: bool) -> SearchRequest:
        """Return the search for ``RetrievalService``.

        Args:
            kb: Id or name of the knowledge base.
            user_id: User that the API key is restricted to; None for an unrestricted API key.
            has_reranker: Whether a reranker is configured.

        Returns:
            The search.

        Raises:
            InvalidInputError: The filter or the weights are not valid.
        """
        texts = [self.query] if isinstance(self.query, str) else self.query
        weights = self.ranking_options.hybrid_search
        transformers: list[NamedTransformer] = [REWRITE_TRANSFORMER] if self.rewrite_query else []
        return SearchRequest(
            queries=[Query(text) for text in texts],
            knowledge_bases=[kb],
            top_k=self.max_num_results,
            score_threshold=self.ranking_options.score_threshold or None,
            strategy=None if weights is None else "hybrid",
            strategy_options={} if weights is None else {"dense_weight": weights.compute_dense_weight()},
            transformers=transformers,
            filter=self._to_filter(),
            scope=DocumentScope(user_id),
            rerank=has_reranker and self.ranking_options.ranker != "none",
        )

    def _to_filter(self) -> Mapping[str, Any] | None:
        """Translate the filter. Compile the result here too, so that an error names the field of this API."""
        if self.filters is None:
            return None
        translated = translate_filter(self.filters)
        compile_filter(translated, loc=("body", "filters"))
        return translated


class VectorStoreSearchResultOut(BaseModel):
    """Result of a search: a chunk. The fields from ``similarity`` on are additions of Carrel."""

    file_id: str = Field(
        description="Id of the file; it names nothing for a result of an HTTP source.",
        examples=[example_values.FILE_ID],
    )
    filename: str = Field(description="Name of the file.", examples=["handbook.pdf"])
    score: float = Field(
        description="Cosine similarity, 0 to 1; without one, the score of the strategy, scaled to at most 1.",
        examples=[0.71],
    )
    attributes: dict[str, Any] = Field(description="Metadata of the document.", examples=[{"department": "hr"}])
    content: list[TextContentOut] = Field(description="Text of the chunk.")
    similarity: float | None = Field(
        description="Cosine similarity with the query, -1 to 1; null if no query was embedded.", examples=[0.71]
    )
    document: str | None = Field(
        description="Id of the document in the other APIs; null for a result of an HTTP source.",
        examples=[example_values.DOCUMENT_ID],
    )
    chunk: str | None = Field(
        description="Id of the chunk in the other APIs; null for a result of an HTTP source.",
        examples=[example_values.CHUNK_ID],
    )
    page: int | None = Field(description="First page, from 1; null if the format has no pages.", examples=[4])
    citation: str = Field(
        description="Citation for people: name of the document or address of the web page, with page, slide or rows.",
        examples=["handbook.pdf, p. 4"],
    )


class VectorStoreSearchOut(BaseModel):
    """Results of a search, on one page."""

    object: Literal["vector_store.search_results.page"] = Field(
        "vector_store.search_results.page",
        description="Type of the object.",
        examples=["vector_store.search_results.page"],
    )
    search_query: list[str] = Field(
        description="Texts that the search ran with.", examples=[["How many days of parental leave are there?"]]
    )
    data: list[VectorStoreSearchResultOut] = Field(
        description="Results, best first. The order is that of the strategy and may differ from that of `score`."
    )
    has_more: Literal[False] = Field(False, description="Always false: there is one page.", examples=[False])
    next_page: None = Field(None, description="Always null: there is one page.", examples=[None])
    warnings: list[WarningOut] = Field(
        description="Warnings: a part of the search was left out or done in another way.", examples=[[]]
    )


def _to_result_out(hit: Hit, name: str, score: float) -> VectorStoreSearchResultOut:
    return VectorStoreSearchResultOut(
        file_id=name,
        filename=hit.document.source,
        score=score,
        attributes=flatten_attributes(hit.document.attributes),
        content=[TextContentOut(text=hit.text_span.text)],
        similarity=None if hit.similarity is None else round(hit.similarity, 6),
        document=None if hit.is_external else encode_id("doc", hit.document.id),
        chunk=None if hit.is_external else encode_id("chk", hit.chunk.id),
        page=hit.pages[0],
        citation=hit.citation,
    )


@router.post("", summary="Search a vector store", response_model=VectorStoreSearchOut)
async def search_vector_store(
    kb: VectorStorePath,
    body: VectorStoreSearchRequest,
    tenant: CurrentReader,
    resources: CurrentResources,
    response: Response,
) -> VectorStoreSearchOut | Response:
    """Return the chunks of a vector store that match the query best."""
    user_id = tenant.principal.user_id
    request = body.to_search_request(kb, user_id=user_id, has_reranker=resources.reranker is not None)
    result = require_complete(await search_with_quota(tenant, request, response))
    names = (
        await tenant.vector_store_files.get_attachment_ids([hit.document.id for hit in result.hits])
        if result.hits
        else {}
    )
    out = VectorStoreSearchOut(search_query=list(result.queries), data=[], warnings=to_warnings_out(result.warnings))
    scored = zip(result.hits, to_public_scores(result.hits), strict=True)
    results = ((hit, partial(_to_result_out, hit, names[hit.document.id], score)) for hit, score in scored)
    return await create_hits_response(out, "data", results, response)
