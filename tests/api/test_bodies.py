"""Bodies that are wrong all over cost little: what is told of them is made of a few errors, however large they are."""

from typing import Any

import pytest
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError

from app.api.bodies import MOST_COUNTED, TOO_MANY
from app.api.dify.retrieval import RetrievalIn
from app.api.mcp.arguments import SearchArguments
from app.api.openai.search import VectorStoreSearchIn
from app.api.streamed import checked
from app.api.v1.search import MultiSearchIn
from app.api.v1.upload_forms import TextDocument

MANY = 20_000
UNKNOWN = {f"name{number}": 0 for number in range(MANY)}
KINDS: list[type[BaseModel]] = [MultiSearchIn, RetrievalIn, SearchArguments, VectorStoreSearchIn]


def refused(model: type[BaseModel], given: Any) -> ValidationError:
    with pytest.raises(ValidationError) as caught:
        model.model_validate(given)
    return caught.value


@pytest.mark.parametrize(
    "model", [kind for kind in KINDS if kind is not RetrievalIn]
)  # which ignores what it knows not
def test_many_names_that_are_not_known_are_one_fault(model: type[BaseModel]) -> None:
    found = refused(model, UNKNOWN)
    assert found.error_count() == 1
    assert TOO_MANY in found.errors()[0]["msg"]


def test_few_are_told_one_by_one() -> None:
    few = {f"name{number}": 0 for number in range(20)}
    assert {one["loc"] for one in refused(MultiSearchIn, few).errors()} >= {(name,) for name in few}


@pytest.mark.parametrize(
    ("model", "given"),
    [
        (VectorStoreSearchIn, {"query": "x", "filters": {"type": "in", "key": "a", "value": [{}] * MANY}}),
        (VectorStoreSearchIn, {"query": "x", "filters": {"type": "in", "key": "a", "value": [{}] * 5000}}),
        (
            VectorStoreSearchIn,
            {"query": "x", "filters": {"type": "and", "filters": [{"type": "or", "filters": [{}] * 90}] * 90}},
        ),
        (RetrievalIn, {"knowledge_id": "a", "query": "x", "metadata_condition": {"conditions": [{}] * MANY}}),
        (
            RetrievalIn,
            {
                "knowledge_id": "a",
                "query": "x",
                "metadata_condition": {
                    "conditions": [{"name": "a", "comparison_operator": "in", "value": [{}] * 1000}] * 200
                },
            },
        ),
        (MultiSearchIn, {"queries": [{"vector": ["x"] * 4000}] * 16}),
    ],
    ids=["a long list", "a list", "a wide filter", "conditions", "values of conditions", "vectors"],
)
def test_many_wrong_values_are_few_faults(model: type[BaseModel], given: Any) -> None:
    assert refused(model, given).error_count() <= MOST_COUNTED


def test_chunks_that_are_all_wrong_are_one_fault() -> None:
    body = b'{"chunks": [' + b",".join([b"{}"] * MANY) + b"]}"
    with pytest.raises(RequestValidationError) as caught:
        checked(TextDocument, body)
    assert len(caught.value.errors()) == 1
