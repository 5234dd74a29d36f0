"""Route of Dify's external knowledge API, with its schemas."""

from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Response
from pydantic import AliasChoices, BaseModel, BeforeValidator, Field, StringConstraints

from app.api.dependencies import CurrentReader
from app.api.dify.conditions import build_condition_filter, combine_filters
from app.api.dify.errors import DifyErrorOut, DifyRoute
from app.api.http import example_values
from app.api.http.large_responses import create_hits_response
from app.api.http.request_models import STORABLE, RequestModel, Text
from app.api.http.search_quota import search_with_quota, to_public_scores
from app.bootstrap import TenantServices
from app.documents.scopes import DocumentScope
from app.ids import encode_id
from app.retrieval.quota import require_complete
from app.retrieval.types import Hit, SearchRequest

router = APIRouter(tags=["dify"], route_class=DifyRoute)
# Some callers wait for three seconds; the rest of this time is for the network.
SEARCH_TIMEOUT_SECONDS = 2.5
# Limits of metadata filters.
MAX_CONDITIONS, MAX_VALUES = 200, 1000
Scalar = bool | str | int | float  # without bool, true would be read as 1
Values = Annotated[list[Scalar], Field(max_length=MAX_VALUES, fail_fast=True)]


class DifyRetrievalSetting(BaseModel):
    """Settings of a search. Null has the effect of no setting."""

    top_k: int | None = Field(None, ge=1, le=500, description="Maximum number of records, 1 to 500.", examples=[5])
    score_threshold: float | None = Field(
        None, ge=0, le=1, description="Minimum cosine similarity of a record, 0 to 1; 0 sets none.", examples=[0.3]
    )


class DifyCondition(RequestModel):
    """Condition on metadata."""

    name: Annotated[list[Text], Field(min_length=1, max_length=20), BeforeValidator(lambda item: _to_list(item))] = (
        Field(
            description="Name of the metadata field, or 1 to 20 names of which one must match. For operators with "
            "`not`, none may match.",
            examples=[["department"]],
        )
    )
    comparison_operator: Text = Field(
        description="Operator of Dify, such as `is`, `contains`, `in`, `>` or `before`.", examples=["is"]
    )
    value: Scalar | Values | None = Field(
        None,
        description="Value to compare with, or a list of at most 1,000 values; null for `empty` and `not empty`.",
        examples=["hr"],
    )


class DifyMetadataCondition(RequestModel):
    """Conditions on metadata."""

    logical_operator: Literal["and", "or"] | None = Field(
        None,
        validation_alias=AliasChoices("logical_operator", "logic"),
        description="`and`: all conditions match (default). `or`: at least one does.",
        examples=["and"],
    )
    conditions: Annotated[list[DifyCondition], Field(max_length=MAX_CONDITIONS, fail_fast=True)] | None = Field(
        None,
        description="Conditions, at most 200.",
        examples=[[{"name": ["department"], "comparison_operator": "is", "value": "hr"}]],
    )

    def to_filter(self) -> dict[str, Any] | None:
        """Translate the conditions to a metadata filter. Raises InvalidInputError."""
        parts = [
            build_condition_filter(condition.name, condition.comparison_operator, condition.value)
            for condition in self.conditions or []
        ]
        return combine_filters(parts, self.logical_operator or "and")


class DifyRetrievalRequest(RequestModel):
    """Search of Dify. Unknown fields are ignored."""

    knowledge_id: Text = Field(
        description="Id or name of the knowledge base.", examples=[example_values.KNOWLEDGE_BASE_NAME]
    )
    query: Annotated[str, StringConstraints(strip_whitespace=True, max_length=32_000), STORABLE] = Field(
        description="Text to search for, at most 32,000 characters; an empty text finds nothing.",
        examples=["How many days of parental leave are there?"],
    )
    retrieval_setting: DifyRetrievalSetting | None = Field(
        None, description="Settings of the search.", examples=[{"top_k": 5, "score_threshold": 0.3}]
    )
    metadata_condition: DifyMetadataCondition | None = Field(
        None,
        description="Conditions on metadata.",
        examples=[{"conditions": [{"name": ["department"], "comparison_operator": "is", "value": "hr"}]}],
    )


class DifyRecordOut(BaseModel):
    """Record: a chunk."""

    content: str = Field(
        description="Text of the chunk. If `metadata` has a `table_head`, the text begins with this head of a table.",
        examples=["Parents may take up to 14 months of parental leave."],
    )
    score: float = Field(
        description="Cosine similarity, 0 to 1; without one, the score of the strategy, scaled to at most 1.",
        examples=[0.71],
    )
    title: str = Field(description="Title of the document, else its name.", examples=["Staff handbook"])
    metadata: dict[str, Any] = Field(
        description="Metadata of document and chunk, with ids, page, slide and citation.",
        examples=[{"document_id": example_values.DOCUMENT_ID, "citation": "handbook.pdf, p. 4", "department": "hr"}],
    )


class DifyRecordsOut(BaseModel):
    """Records of a search."""

    records: list[DifyRecordOut] = Field(description="Records, best first.")


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
        "page": hit.pages[0],
        "slide": chunk.slide,
        "citation": hit.citation,
        "section_titles": chunk.section_titles,
        "table_head": hit.text_span.table_head,
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
        # A key that is restricted to a user searches that user's documents, in addition to shared documents.
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
    summary="Search for Dify",
    response_model=DifyRecordsOut,
    responses={
        403: _describe_error("The key is missing (1001) or not valid (1002)"),
        404: _describe_error("The knowledge base does not exist, or the key may not see it (2001)"),
        413: _describe_error("The body is too large"),
        422: _describe_error("The request is not valid"),
        429: _describe_error("Too many requests; try again after Retry-After"),
        503: _describe_error("A dependency does not answer; try again"),
    },
)
async def retrieve_records(
    tenant: CurrentReader, response: Response, body: DifyRetrievalRequest | None = None
) -> DifyRecordsOut | Response:
    """Return the chunks of a knowledge base in the form of Dify's external knowledge API.

    Dify sends an empty body to check the key when an API is registered. The response then has no records.
    """
    return DifyRecordsOut(records=[]) if body is None else await _search_records(tenant, body, response)
