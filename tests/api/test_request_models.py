"""Invalid bodies with many errors cost little: the reply describes only the first errors."""

from typing import Any

import pytest
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError

from app.api.dify.retrieval import DifyRetrievalRequest
from app.api.http.request_models import MAX_VALIDATION_ERRORS, TOO_MANY_ERRORS_MESSAGE
from app.api.http.streaming_body import validate_body
from app.api.mcp.arguments import SearchArguments
from app.api.openai.vector_store_search import VectorStoreSearchRequest
from app.api.v1.documents.upload_schemas import TextDocumentCreate
from app.api.v1.search.search import MultiSearchRequest

MANY = 20_000
UNKNOWN = {f"name{number}": 0 for number in range(MANY)}
KINDS: list[type[BaseModel]] = [MultiSearchRequest, DifyRetrievalRequest, SearchArguments, VectorStoreSearchRequest]


def refused(model: type[BaseModel], given: Any) -> ValidationError:
    with pytest.raises(ValidationError) as caught:
        model.model_validate(given)
    return caught.value


@pytest.mark.parametrize(
    "model", [kind for kind in KINDS if kind is not DifyRetrievalRequest]
)  # the model ignores unknown fields
def test_unknown_fields_above_limit_are_one_error(model: type[BaseModel]) -> None:
    found = refused(model, UNKNOWN)
    assert found.error_count() == 1
    assert TOO_MANY_ERRORS_MESSAGE in found.errors()[0]["msg"]


def test_few_unknown_fields_are_listed_one_by_one() -> None:
    few = {f"name{number}": 0 for number in range(20)}
    assert {one["loc"] for one in refused(MultiSearchRequest, few).errors()} >= {(name,) for name in few}


@pytest.mark.parametrize(
    ("model", "given"),
    [
        (VectorStoreSearchRequest, {"query": "x", "filters": {"type": "in", "key": "a", "value": [{}] * MANY}}),
        (VectorStoreSearchRequest, {"query": "x", "filters": {"type": "in", "key": "a", "value": [{}] * 5000}}),
        (
            VectorStoreSearchRequest,
            {"query": "x", "filters": {"type": "and", "filters": [{"type": "or", "filters": [{}] * 90}] * 90}},
        ),
        (DifyRetrievalRequest, {"knowledge_id": "a", "query": "x", "metadata_condition": {"conditions": [{}] * MANY}}),
        (
            DifyRetrievalRequest,
            {
                "knowledge_id": "a",
                "query": "x",
                "metadata_condition": {
                    "conditions": [{"name": "a", "comparison_operator": "in", "value": [{}] * 1000}] * 200
                },
            },
        ),
        (MultiSearchRequest, {"queries": [{"vector": ["x"] * 4000}] * 16}),
    ],
    ids=["a long list", "a list", "a wide filter", "conditions", "values of conditions", "vectors"],
)
def test_many_wrong_values_are_limited_errors(model: type[BaseModel], given: Any) -> None:
    assert refused(model, given).error_count() <= MAX_VALIDATION_ERRORS


def test_many_wrong_chunks_are_one_error() -> None:
    body = b'{"chunks": [' + b",".join([b"{}"] * MANY) + b"]}"
    with pytest.raises(RequestValidationError) as caught:
        validate_body(TextDocumentCreate, body)
    assert len(caught.value.errors()) == 1
