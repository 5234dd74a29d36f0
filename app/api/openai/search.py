"""Search in a vector store."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field, StringConstraints

from app.api.bodies import STORABLE
from app.api.dependencies import CurrentReader, CurrentResources, GuardedRoute
from app.api.large_replies import reply_with_hits
from app.api.openai.envelope import RESPONSES
from app.api.openai.filters import GivenFilter, filter_of
from app.api.openai.shapes import Asked
from app.api.openai.store_files import TextPart, plain
from app.api.searching import admitted_search, told_scores
from app.documents.scopes import Scope
from app.errors import InvalidInput
from app.filters import compile_filter
from app.ids import encode_id
from app.retrieval.admission import certain
from app.retrieval.types import Hit, NamedTransformer, Query, SearchRequest

# GuardedRoute knows by the tag "search" that it changes nothing.
router = APIRouter(
    prefix="/vector_stores/{kb}/search",
    tags=["openai vector stores", "search"],
    route_class=GuardedRoute,
    responses=RESPONSES,
)
Words = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=32_000), STORABLE]
REWRITING = "multi_query"


class HybridWeights(Asked):
    """What the two lanes count for; only their ratio matters."""

    embedding_weight: float = Field(ge=0, le=1_000_000)
    text_weight: float = Field(ge=0, le=1_000_000)

    def dense_weight(self) -> float:
        """The share of the dense lane. Raises InvalidInput."""
        both = self.embedding_weight + self.text_weight
        if both == 0:
            raise InvalidInput(
                "One of the weights must be more than 0.", loc=("body", "ranking_options", "hybrid_search")
            )
        return self.embedding_weight / both


class RankingOptions(Asked):
    """How results are ordered, and which are left out.

    ``ranker`` auto and default-2024-11-15 are the configured reranker, where there is one. A ``score_threshold`` of 0
    asks for none.
    """

    ranker: Literal["none", "auto", "default-2024-11-15"] = "auto"
    score_threshold: float | None = Field(None, ge=0, le=1)
    hybrid_search: HybridWeights | None = None


class VectorStoreSearchIn(Asked):
    """One query or several, which are searched together."""

    query: Words | Annotated[list[Words], Field(min_length=1, max_length=16)]
    filters: GivenFilter | None = None
    max_num_results: int = Field(10, ge=1, le=50)
    ranking_options: RankingOptions = RankingOptions()
    rewrite_query: bool = False

    def request(self, kb: str, *, user_id: str | None, reranks: bool) -> SearchRequest:
        """The room's form of it."""
        words = [self.query] if isinstance(self.query, str) else self.query
        weights = self.ranking_options.hybrid_search
        transformers: list[NamedTransformer] = [REWRITING] if self.rewrite_query else []
        return SearchRequest(
            queries=[Query(one) for one in words],
            knowledge_bases=[kb],
            top_k=self.max_num_results,
            score_threshold=self.ranking_options.score_threshold or None,
            strategy=None if weights is None else "hybrid",
            strategy_options={} if weights is None else {"dense_weight": weights.dense_weight()},
            transformers=transformers,
            filter=self._filter(),
            scope=Scope(user_id),
            rerank=reranks and self.ranking_options.ranker != "none",
        )

    def _filter(self) -> Mapping[str, Any] | None:
        """In our language; looked at here, so that a refusal names the field as it is called here."""
        if self.filters is None:
            return None
        made = filter_of(self.filters)
        compile_filter(made, loc=("body", "filters"))
        return made


class ResultOut(BaseModel):
    """A passage; what other doors tell of it follows its text.

    What an HTTP source has found is no ``document`` here, and its ``file_id`` names nothing.
    """

    file_id: str
    filename: str
    score: float
    attributes: dict[str, Any]
    content: list[TextPart]
    similarity: float | None
    document: str | None
    chunk: str | None
    page: int | None
    citation: str


class ResultsOut(BaseModel):
    """Passages, best first, which is not always the order of their scores; there is one page of them."""

    object: Literal["vector_store.search_results.page"] = "vector_store.search_results.page"
    search_query: list[str]
    data: list[ResultOut]
    has_more: Literal[False] = False
    next_page: None = None
    warnings: list[str]


def _result(hit: Hit, name: str, score: float) -> ResultOut:
    return ResultOut(
        file_id=name,
        filename=hit.document.source,
        score=score,
        attributes=plain(hit.document.attributes),
        content=[TextPart(text=hit.passage.text)],
        similarity=None if hit.similarity is None else round(hit.similarity, 6),
        document=None if hit.outside else encode_id("doc", hit.document.id),
        chunk=None if hit.outside else encode_id("chk", hit.chunk.id),
        page=hit.chunk.page,
        citation=hit.citation,
    )


@router.post("", response_model=ResultsOut)
async def search_vector_store(
    kb: str, body: VectorStoreSearchIn, tenant: CurrentReader, resources: CurrentResources, response: Response
) -> ResultsOut | Response:
    """The passages of a vector store that answer the query."""
    user_id = tenant.principal.user_id
    request = body.request(kb, user_id=user_id, reranks=resources.reranker is not None)
    result = certain(await admitted_search(tenant, request, response))
    names = await tenant.attachments.names([hit.document.id for hit in result.hits]) if result.hits else {}
    out = ResultsOut(search_query=list(result.queries), data=[], warnings=list(result.warnings))
    scored = zip(result.hits, told_scores(result.hits), strict=True)
    made = ((hit, partial(_result, hit, names[hit.document.id], score)) for hit, score in scored)
    return await reply_with_hits(out, "data", made, response)
