"""The route, what Dify sends to it, and what it wants back."""

from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Response
from pydantic import AliasChoices, BaseModel, BeforeValidator, Field, StringConstraints

from app.api.dependencies import CurrentReader
from app.api.dify.conditions import build_condition_filter, combine_filters
from app.api.dify.errors import DifyErrorOut, DifyRoute
from app.api.http.large_responses import create_hits_response
from app.api.http.request_models import STORABLE, RequestModel, Text
from app.api.http.search_quota import search_with_quota, to_public_scores
from app.bootstrap import TenantServices
from app.documents.scopes import DocumentScope
from app.ids import encode_id
from app.retrieval.quota import require_complete
from app.retrieval.types import Hit, SearchRequest

router = APIRouter(tags=["dify"], route_class=DifyRoute)
# Some callers wait for three seconds: the rest is for the way here and back.
SEARCH_TIMEOUT_SECONDS = 2.5
# As our filter language takes them.
MAX_CONDITIONS, MAX_VALUES = 200, 1000
Scalar = bool | str | int | float  # without bool, true would be read as 1
Values = Annotated[list[Scalar], Field(max_length=MAX_VALUES, fail_fast=True)]


class DifyRetrievalSetting(BaseModel):
    """Null is as without it; ``score_threshold`` is the least cosine similarity, and 0 asks for none."""

    top_k: int | None = Field(None, ge=1, le=500)
    score_threshold: float | None = Field(None, ge=0, le=1)


class DifyCondition(RequestModel):
    """On metadata; of several names one must fulfil it, and of one that says ``not`` none may fulfil the opposite."""

    name: Annotated[list[Text], Field(min_length=1, max_length=20), BeforeValidator(lambda item: _to_list(item))]
    comparison_operator: Text
    value: Scalar | Values | None = None


class DifyMetadataCondition(RequestModel):
    """All conditions hold, or with ``or`` at least one."""

    logical_operator: Literal["and", "or"] | None = Field(
        None, validation_alias=AliasChoices("logical_operator", "logic")
    )
    conditions: Annotated[list[DifyCondition], Field(max_length=MAX_CONDITIONS, fail_fast=True)] | None = None

    def to_filter(self) -> dict[str, Any] | None:
        """In our language. Raises InvalidInputError."""
        parts = [
            build_condition_filter(condition.name, condition.comparison_operator, condition.value)
            for condition in self.conditions or []
        ]
        return combine_filters(parts, self.logical_operator or "and")


class DifyRetrievalRequest(RequestModel):
    """``knowledge_id`` is the id or the name of a knowledge base; fields that are not known are ignored."""

    knowledge_id: Text
    query: Annotated[str, StringConstraints(strip_whitespace=True, max_length=32_000), STORABLE]
    retrieval_setting: DifyRetrievalSetting | None = None
    metadata_condition: DifyMetadataCondition | None = None


class DifyRecordOut(BaseModel):
    """A passage; ``score`` is its cosine similarity, from 0 to 1, or what orders where that is not known."""

    content: str
    score: float
    title: str
    metadata: dict[str, Any]


class DifyRecordsOut(BaseModel):
    """Best first."""

    records: list[DifyRecordOut]


def _to_list(names: Any) -> Any:
    return [names] if isinstance(names, str) else names


def _to_record_out(hit: Hit, score: float) -> DifyRecordOut:
    chunk, document = hit.chunk, hit.document
    fields = {
        "document_id": None if hit.is_external else encode_id("doc", document.id),
        "chunk_id": None if hit.is_external else encode_id("chk", chunk.id),
        "knowledge_base": hit.knowledge_base,
        "source": document.source,
        "source_uri": document.source_uri,
        "page": chunk.page,
        "slide": chunk.slide,
        "citation": hit.citation,
        "section_titles": chunk.section_titles,
    }
    defined_fields = {name: value for name, value in fields.items() if value is not None}
    return DifyRecordOut(
        content=hit.text_span.text,
        score=score,
        title=document.title or document.source,
        metadata={**defined_fields, **document.attributes, **chunk.attributes},
    )


async def _search_records(
    tenant: TenantServices, body: DifyRetrievalRequest, response: Response
) -> DifyRecordsOut | Response:
    setting = body.retrieval_setting or DifyRetrievalSetting()
    request = SearchRequest(
        queries=[body.query] if body.query else [],
        knowledge_bases=[body.knowledge_id],
        top_k=setting.top_k,
        score_threshold=setting.score_threshold or None,
        filter=body.metadata_condition.to_filter() if body.metadata_condition is not None else None,
        # A key that is narrowed to a user speaks for nobody else.
        scope=DocumentScope(user_id=tenant.principal.user_id),
        timeout_seconds=SEARCH_TIMEOUT_SECONDS,
    )
    result = require_complete(await search_with_quota(tenant, request, response))
    scored = zip(result.hits, to_public_scores(result.hits), strict=True)
    records = ((hit, partial(_to_record_out, hit, score)) for hit, score in scored)
    return await create_hits_response(DifyRecordsOut(records=[]), "records", records, response)


def _describe_error(text: str) -> dict[str, Any]:
    return {"description": text, "model": DifyErrorOut}


@router.post(
    "/dify/retrieval",
    response_model=DifyRecordsOut,
    responses={
        403: _describe_error("No Bearer key (1001), or one that is not valid (1002)"),
        404: _describe_error("No such knowledge base that this key may see (2001)"),
        413: _describe_error("Too large"),
        422: _describe_error("Not valid"),
        429: _describe_error("Too many requests; try again after Retry-After"),
        503: _describe_error("A dependency is down; try again"),
    },
)
async def retrieve_records(
    tenant: CurrentReader, response: Response, body: DifyRetrievalRequest | None = None
) -> DifyRecordsOut | Response:
    """Passages for Dify's external knowledge API, from one knowledge base.

    An empty body is how Dify tries the key when a knowledge API is registered: it finds nothing.
    """
    return DifyRecordsOut(records=[]) if body is None else await _search_records(tenant, body, response)
