"""Search in a vector store."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field, StringConstraints

from app.api.dependencies import AuthenticatedRoute, CurrentReader, CurrentResources
from app.api.http.large_responses import create_hits_response
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

# AuthenticatedRoute knows by the tag "search" that it changes nothing.
router = APIRouter(
    prefix="/vector_stores/{kb}/search",
    tags=["openai vector stores", "search"],
    route_class=AuthenticatedRoute,
    responses=ERROR_RESPONSES,
)
QueryText = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=32_000), STORABLE]
REWRITE_TRANSFORMER = "multi_query"


class HybridWeights(OpenAiRequestModel):
    """What the two lanes count for; only their ratio matters."""

    embedding_weight: float = Field(ge=0, le=1_000_000)
    text_weight: float = Field(ge=0, le=1_000_000)

    def compute_dense_weight(self) -> float:
        """The share of the dense lane. Raises InvalidInputError."""
        total = self.embedding_weight + self.text_weight
        if total == 0:
            raise InvalidInputError(
                "One of the weights must be more than 0.", loc=("body", "ranking_options", "hybrid_search")
            )
        return self.embedding_weight / total


class RankingOptions(OpenAiRequestModel):
    """How results are ordered, and which are left out.

    ``ranker`` auto and default-2024-11-15 are the configured reranker, where there is one. A ``score_threshold`` of 0
    asks for none.
    """

    ranker: Literal["none", "auto", "default-2024-11-15"] = "auto"
    score_threshold: float | None = Field(None, ge=0, le=1)
    hybrid_search: HybridWeights | None = None


class VectorStoreSearchRequest(OpenAiRequestModel):
    """One query or several, which are searched together."""

    query: QueryText | Annotated[list[QueryText], Field(min_length=1, max_length=16)]
    filters: VectorStoreFilter | None = None
    max_num_results: int = Field(10, ge=1, le=50)
    ranking_options: RankingOptions = RankingOptions()
    rewrite_query: bool = False

    def to_search_request(self, kb: str, *, user_id: str | None, has_reranker: bool) -> SearchRequest:
        """The room's form of it."""
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
        """In our language; looked at here, so that a refusal names the field as it is called here."""
        if self.filters is None:
            return None
        translated = translate_filter(self.filters)
        compile_filter(translated, loc=("body", "filters"))
        return translated


class VectorStoreSearchResultOut(BaseModel):
    """A passage; what other doors tell of it follows its text.

    What an HTTP source has found is no ``document`` here, and its ``file_id`` names nothing.
    """

    file_id: str
    filename: str
    score: float
    attributes: dict[str, Any]
    content: list[TextContentOut]
    similarity: float | None
    document: str | None
    chunk: str | None
    page: int | None
    citation: str


class VectorStoreSearchOut(BaseModel):
    """Passages, best first, which is not always the order of their scores; there is one page of them."""

    object: Literal["vector_store.search_results.page"] = "vector_store.search_results.page"
    search_query: list[str]
    data: list[VectorStoreSearchResultOut]
    has_more: Literal[False] = False
    next_page: None = None
    warnings: list[WarningOut]


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
        page=hit.chunk.page,
        citation=hit.citation,
    )


@router.post("", response_model=VectorStoreSearchOut)
async def search_vector_store(
    kb: str, body: VectorStoreSearchRequest, tenant: CurrentReader, resources: CurrentResources, response: Response
) -> VectorStoreSearchOut | Response:
    """The passages of a vector store that answer the query."""
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
