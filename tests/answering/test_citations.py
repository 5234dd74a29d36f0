"""Citations: the model names numbers of documents, and values that cannot be a number are dropped."""

from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from app.answering.citations import CitedSourceNumbers, find_model_citations, find_overlap_citations, group_by_document
from app.answering.types import AnswerSource
from app.inference.chat.structured_output import build_strict_schema
from tests.retrieval.hits import hit

SOURCES = [
    AnswerSource(1, hit("Ninety euros.", 0.9, document=1, ordinal=4)),
    AnswerSource(2, hit("Fourteen weeks.", 0.8, document=2)),
    AnswerSource(3, hit("A deposit.", 0.7, document=1, ordinal=2)),
]


@pytest.mark.parametrize(
    ("numbers", "cited"),
    [
        ([], []),
        ([2], [[2]]),
        ([2, 1, 3], [[2], [3, 1]]),  # documents in the order of the citations, passages in their own order
        ([1, 1, 99, 0, -3], [[1]]),
    ],
)
def test_find_model_citations_returns_one_citation_per_document(numbers: list[int], cited: list[list[int]]) -> None:
    found = find_model_citations(numbers, SOURCES)
    assert found is not None
    assert [[source.number for source in one.sources] for one in found] == cited
    assert {one.method for one in found} <= {"model"}


def test_find_model_citations_all_numbers_wrong_returns_none() -> None:
    assert find_model_citations([4, 0], SOURCES) is None


@pytest.mark.parametrize(
    ("written", "read"),
    [([1, "2"], [1, 2]), (["[3]", "source 4."], [3, 4]), (["-1", "9" * 50], [-1, 999_999_999]), ([], [])],
)
def test_cited_source_numbers_read_every_written_form(written: list[Any], read: list[int]) -> None:
    assert CitedSourceNumbers.model_validate({"numbers": written}).numbers == read


@pytest.mark.parametrize(
    "written", [None, "1", {"1": 2}, ["one"], [[1]], [None], [1] * 1001], ids=lambda one: str(one)[:9]
)
def test_cited_source_numbers_refuse_other_values(written: Any) -> None:
    with pytest.raises(ValidationError):
        CitedSourceNumbers.model_validate({"numbers": written})


def test_citation_schema_is_strict() -> None:
    schema = build_strict_schema(CitedSourceNumbers)
    assert schema["properties"]["numbers"]["items"] == {"type": "integer"}
    assert (schema["required"], schema["additionalProperties"]) == (["numbers"], False)


def test_find_overlap_citations_uses_shared_words() -> None:
    (only,) = find_overlap_citations("It takes fourteen weeks.", SOURCES, languages=["english"])
    assert ([source.number for source in only.sources], only.method) == ([2], "overlap")


def test_citation_label_names_document_once_and_every_page() -> None:
    def on_page(page: int | None, ordinal: int) -> AnswerSource:
        found = hit("text", 0.5, ordinal=ordinal)
        return AnswerSource(ordinal + 1, replace(found, chunk=replace(found.chunk, page=page)))

    sources = [on_page(4, 0), on_page(4, 1), on_page(7, 2), on_page(None, 3)]
    (only,) = group_by_document(sources, "model")
    assert only.label == "notes.txt, p. 4, p. 7"
    (unpaged,) = group_by_document(sources[3:], "model")
    assert unpaged.label == "notes.txt"


def test_citations_of_shared_document_with_same_id_are_separate() -> None:
    own = SOURCES[1]
    shared = replace(own, hit=replace(own.hit, document=replace(own.hit.document, tenant_id=own.hit.document.id)))
    assert len(group_by_document([own, shared], "model")) == 2
