"""Defaults of searches and of new knowledge bases by the name of the embedding model."""

import pytest

from app.inference.embedding.search_defaults import SEARCH_DEFAULTS, SearchDefaults, get_search_defaults


@pytest.mark.parametrize("model", ["text-embedding-3-large", "", "all-minilm-l6-v2", "bge-small-en-v1.5 "])
def test_get_search_defaults_unknown_model_returns_general_defaults(model: str) -> None:
    assert get_search_defaults(model) == SearchDefaults(dense_weight=0.6, score_threshold=None, max_tokens=170)


@pytest.mark.parametrize("model", ["all-MiniLM-L6-v2", "bge-small-en-v1.5", "multilingual-e5-small"])
def test_get_search_defaults_local_model_returns_its_defaults(model: str) -> None:
    assert get_search_defaults(model) is SEARCH_DEFAULTS[model]


@pytest.mark.parametrize("defaults", SEARCH_DEFAULTS.values(), ids=SEARCH_DEFAULTS.keys())
def test_search_defaults_values_are_in_the_ranges_of_the_api(defaults: SearchDefaults) -> None:
    assert 0 <= defaults.dense_weight <= 1
    assert defaults.score_threshold is None or -1 <= defaults.score_threshold <= 1
    assert 16 <= defaults.max_tokens <= 254
    assert defaults.cosine_span is None or 0 < defaults.cosine_span <= 2
