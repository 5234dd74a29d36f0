"""Every shape of a reply that is refused, and the accepted ones."""

import base64
import math
from typing import Any

import numpy as np
import pytest

from app.inference.embedding import EmbeddingMismatch
from app.inference.embedding.openai_reply import UnusableReply, read_reply, read_used_tokens


def entry(embedding: Any, index: Any = 0) -> dict[str, Any]:
    return {"embedding": embedding, "index": index}


def test_read_reply_vectors_become_unit_vectors() -> None:
    payload = {"data": [entry([3e38, 3e38], 0), entry([1e-30, 0], 1), entry([3, 4], 2)]}
    vectors = read_reply(payload, 3, 2, setting="ITS_SETTING")
    assert np.allclose(vectors, np.array([[math.sqrt(0.5)] * 2, [1.0, 0.0], [0.6, 0.8]]))


def test_read_reply_without_indexes_is_in_order() -> None:
    vectors = read_reply({"data": [{"embedding": [1, 0]}, {"embedding": [0, 1]}]}, 2, 2, setting="ITS_SETTING")
    assert vectors.tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize(
    "payload",
    [
        None,
        [],
        {},
        {"data": None},
        {"data": ["vector"]},
        {"data": []},
        {"data": [entry([1, 0], 1)]},
        {"data": [entry([1, 0], True)]},
        {"data": [entry([1, 0], [0])]},
        {"data": [entry(None)]},
        {"data": [entry(7)]},
        {"data": [entry([1, None])]},
        {"data": [entry(["a", "b"])]},
        {"data": [entry([[1, 0]])]},
        {"data": [entry([[1], [0, 1]])]},
        {"data": [entry({"0": 1})]},
        {"data": [entry("not base64!")]},
        {"data": [entry(base64.b64encode(b"12345").decode())]},
        {"data": [entry([math.nan, 1])]},
        {"data": [entry([1e300, 1])]},
        {"data": [entry([10**400, 1])]},
        {"data": [entry([0, 0])]},
    ],
)
def test_read_reply_malformed_payload_is_refused(payload: Any) -> None:
    with pytest.raises(UnusableReply):
        read_reply(payload, 1, 2, setting="ITS_SETTING")


def test_read_reply_duplicate_index_is_refused() -> None:
    with pytest.raises(UnusableReply, match="indexes"):
        read_reply({"data": [entry([1, 0], 1), entry([0, 1], 1)]}, 2, 2, setting="ITS_SETTING")


@pytest.mark.parametrize("embedding", [[], [1], [1, 2, 3], base64.b64encode(bytes(12)).decode()])
def test_read_reply_other_dimension_is_mismatch(embedding: Any) -> None:
    with pytest.raises(EmbeddingMismatch):
        read_reply({"data": [entry(embedding)]}, 1, 2, setting="ITS_SETTING")


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"total_tokens": 5}, 5),
        ({"total_tokens": 19}, 19),
        ({"total_tokens": 20}, None),
        ({"total_tokens": 10**30}, None),
        ({"total_tokens": 0}, None),
        ({"total_tokens": -1}, None),
        ({"total_tokens": True}, None),
        ({"total_tokens": "5"}, None),
        ({"total_tokens": 5.0}, None),
        ({"prompt_tokens": 5}, None),
        ([5], None),
        (None, None),
    ],
)
def test_read_used_tokens_only_plausible_values_are_used(usage: Any, tokens: int | None) -> None:
    assert read_used_tokens({"usage": usage}, max_tokens=19) == tokens
    assert read_used_tokens([usage], max_tokens=19) is None
