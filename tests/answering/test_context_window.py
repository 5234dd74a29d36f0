"""Context window: whole passages, best first, until the token budget is used."""

import json
from dataclasses import replace

import pytest

from app.answering.context_window import (
    compute_default_top_k,
    estimate_source_tokens,
    number_sources,
    select_within_budget,
    to_prompt_json,
)
from app.answering.types import AnswerSource
from app.errors import InvalidInputError
from app.inference.embedding.token_estimate import estimate_tokens
from tests.retrieval.hits import hit

HITS = [hit("a" * 300, 0.9), hit("b" * 900, 0.8, document=2), hit("c" * 300, 0.7, document=3)]


@pytest.mark.parametrize(
    ("most_tokens", "kept"),
    [
        (10_000, "abc"),
        (sum(estimate_source_tokens(source) for source in number_sources(HITS)), "abc"),
        (sum(estimate_source_tokens(source) for source in number_sources(HITS)) - 1, "ab"),
        (350, "ac"),  # a passage that is too large leaves its tokens to smaller ones
        (200, "a"),
    ],
)
def test_select_within_budget_returns_whole_passages(most_tokens: int, kept: str) -> None:
    found = select_within_budget(number_sources(HITS), max_tokens=most_tokens)
    assert "".join(source.text[0] for source in found) == kept
    assert [source.number for source in found] == list(range(1, len(kept) + 1))
    assert sum(estimate_source_tokens(source) for source in found) <= most_tokens
    assert {len(source.text) for source in found} <= {300, 900}


def test_select_within_budget_too_small_budget_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="the shortest has") as caught:
        select_within_budget(number_sources(HITS), max_tokens=50)
    assert caught.value.loc == ("body", "max_context_tokens")
    assert select_within_budget([], max_tokens=50) == []


def test_compressed_source_counts_its_compressed_text() -> None:
    whole = AnswerSource(1, HITS[1])
    assert estimate_source_tokens(replace(whole, compressed_text="short")) < estimate_source_tokens(whole) - 200
    assert whole.text == "b" * 900
    assert replace(whole, compressed_text="short").text == "short"


def test_estimated_tokens_count_the_sent_json() -> None:
    found = hit("Ninety euros.", 0.9)
    titled = hit("Ninety euros.", 0.9, title="Rentals")
    titled = replace(titled, chunk=replace(titled.chunk, section_titles=["Prices", "Vans"]))
    told = to_prompt_json(AnswerSource(3, titled))
    assert told == {"number": 3, "document": "Rentals", "section": "Prices > Vans", "text": "Ninety euros."}
    assert estimate_source_tokens(AnswerSource(3, titled)) == estimate_tokens(json.dumps(told))
    assert to_prompt_json(AnswerSource(1, found)) == {"number": 1, "document": "notes.txt", "text": "Ninety euros."}


@pytest.mark.parametrize(("most_tokens", "passages"), [(200, 10), (4000, 40), (200_000, 100)])
def test_default_top_k_exceeds_the_token_budget(most_tokens: int, passages: int) -> None:
    assert compute_default_top_k(most_tokens) == passages
