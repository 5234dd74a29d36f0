"""The route, what Dify sends to it, and what it wants back."""

from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Response
from pydantic import AliasChoices, BaseModel, BeforeValidator, Field, StringConstraints

from app.api.bodies import STORABLE, Body, Text
from app.api.dependencies import CurrentReader
from app.api.dify.conditions import condition_filter, joined
from app.api.dify.errors import DifyError, DifyRoute
from app.api.large_replies import reply_with_hits
from app.api.searching import admitted_search, told_scores
from app.bootstrap import TenantServices
from app.documents.scopes import Scope
from app.ids import encode_id
from app.retrieval.admission import certain
from app.retrieval.types import Hit, SearchRequest

router = APIRouter(tags=["dify"], route_class=DifyRoute)
# Some callers wait for three seconds: the rest is for the way here and back.
SECONDS = 2.5
# As our filter language takes them.
MOST_CONDITIONS, MOST_VALUES = 200, 1000
Scalar = bool | str | int | float  # without bool, true would be read as 1
Values = Annotated[list[Scalar], Field(max_length=MOST_VALUES, fail_fast=True)]


class RetrievalSetting(BaseModel):
    """Null is as without it; ``score_threshold`` is the least cosine similarity, and 0 asks for none."""

    top_k: int | None = Field(None, ge=1, le=500)
    score_threshold: float | None = Field(None, ge=0, le=1)


class Condition(Body):
    """On metadata; of several names one must fulfil it, and of one that says ``not`` none may fulfil the opposite."""

    name: Annotated[list[Text], Field(min_length=1, max_length=20), BeforeValidator(lambda one: _listed(one))]
    comparison_operator: Text
    value: Scalar | Values | None = None


class MetadataCondition(Body):
    """All conditions hold, or with ``or`` at least one."""

    logical_operator: Literal["and", "or"] | None = Field(
        None, validation_alias=AliasChoices("logical_operator", "logic")
    )
    conditions: Annotated[list[Condition], Field(max_length=MOST_CONDITIONS, fail_fast=True)] | None = None

    def filter(self) -> dict[str, Any] | None:
        """In our language. Raises InvalidInput."""
        parts = [condition_filter(one.name, one.comparison_operator, one.value) for one in self.conditions or []]
        return joined(parts, self.logical_operator or "and")


class RetrievalIn(Body):
    """``knowledge_id`` is the id or the name of a knowledge base; fields that are not known are ignored."""

    knowledge_id: Text
    query: Annotated[str, StringConstraints(strip_whitespace=True, max_length=32_000), STORABLE]
    retrieval_setting: RetrievalSetting | None = None
    metadata_condition: MetadataCondition | None = None


class Record(BaseModel):
    """A passage; ``score`` is its cosine similarity, from 0 to 1, or what orders where that is not known."""

    content: str
    score: float
    title: str
    metadata: dict[str, Any]


class Records(BaseModel):
    """Best first."""

    records: list[Record]


def _listed(names: Any) -> Any:
    return [names] if isinstance(names, str) else names


def _record(hit: Hit, score: float) -> Record:
    chunk, document = hit.chunk, hit.document
    facts = {
        "document_id": None if hit.outside else encode_id("doc", document.id),
        "chunk_id": None if hit.outside else encode_id("chk", chunk.id),
        "knowledge_base": hit.knowledge_base,
        "source": document.source,
        "source_uri": document.source_uri,
        "page": chunk.page,
        "slide": chunk.slide,
        "citation": hit.citation,
        "section_titles": chunk.section_titles,
    }
    known = {name: value for name, value in facts.items() if value is not None}
    return Record(
        content=hit.passage.text,
        score=score,
        title=document.title or document.source,
        metadata={**known, **document.attributes, **chunk.attributes},
    )


async def _found(tenant: TenantServices, body: RetrievalIn, response: Response) -> Records | Response:
    setting = body.retrieval_setting or RetrievalSetting()
    request = SearchRequest(
        queries=[body.query] if body.query else [],
        knowledge_bases=[body.knowledge_id],
        top_k=setting.top_k,
        score_threshold=setting.score_threshold or None,
        filter=body.metadata_condition.filter() if body.metadata_condition is not None else None,
        # A key that is narrowed to a user speaks for nobody else.
        scope=Scope(user_id=tenant.principal.user_id),
        timeout_seconds=SECONDS,
    )
    result = certain(await admitted_search(tenant, request, response))
    scored = zip(result.hits, told_scores(result.hits), strict=True)
    made = ((hit, partial(_record, hit, score)) for hit, score in scored)
    return await reply_with_hits(Records(records=[]), "records", made, response)


def _told(text: str) -> dict[str, Any]:
    return {"description": text, "model": DifyError}


@router.post(
    "/dify/retrieval",
    response_model=Records,
    responses={
        403: _told("No Bearer key (1001), or one that is not valid (1002)"),
        404: _told("No such knowledge base that this key may see (2001)"),
        413: _told("Too large"),
        422: _told("Not valid"),
        429: _told("Too many requests; try again after Retry-After"),
        503: _told("A dependency is down; try again"),
    },
)
async def retrieve(tenant: CurrentReader, response: Response, body: RetrievalIn | None = None) -> Records | Response:
    """Passages for Dify's external knowledge API, from one knowledge base.

    An empty body is how Dify tries the key when a knowledge API is registered: it finds nothing.
    """
    return Records(records=[]) if body is None else await _found(tenant, body, response)
