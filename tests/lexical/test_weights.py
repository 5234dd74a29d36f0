"""Entries and keys: BM25 up to rounding, and keys that never collide inside one index."""

import math
import random
from collections import Counter
from uuid import UUID

import bm25s
import pytest

from app.lexical.weights import (
    DIMENSIONS,
    K1,
    MAX_TERMS,
    B,
    LexicalEntry,
    TooManyTerms,
    build_entries,
    build_entry,
    compute_query_terms,
    compute_salt,
    compute_term_id,
    compute_term_key,
    murmur_finalize,
)

INDEX = UUID("01890a5d-ac96-774b-bcce-b302099a8057")
OTHER = UUID("01890a5d-ac96-774b-bcce-b302099a8058")


def corpus(seed: int, documents: int) -> list[list[str]]:
    rng = random.Random(seed)
    words = [f"w{n}" for n in range(400)]
    shares = [1 / (n + 1) for n in range(400)]
    return [rng.choices(words, shares, k=rng.randint(1, 200)) for _ in range(documents)]


def unmix32(value: int) -> int:
    """Return the inverse of mix32: multiplications by the inverse constants modulo 2**32, and inverse shifts."""
    value ^= value >> 16
    value = value * pow(0xC2B2AE35, -1, 1 << 32) & 0xFFFFFFFF
    value ^= value >> 13 ^ value >> 26
    value = value * pow(0x85EBCA6B, -1, 1 << 32) & 0xFFFFFFFF
    return value ^ value >> 16


@pytest.mark.parametrize("sizes", [(K1, B), (1.5, 0.75), (0.9, 0.4)])
def test_bm25_scores_equal_bm25s(sizes: tuple[float, float]) -> None:
    k1, b = sizes
    documents = corpus(1, 300)
    reference = bm25s.BM25(method="lucene", k1=k1, b=b)
    reference.index(documents, show_progress=False)
    avgdl = sum(map(len, documents)) / len(documents)
    entries = build_entries(documents, salt=compute_salt(INDEX), k1=k1, b=b, avgdl=avgdl)
    frequencies = Counter(key for entry in entries for key in entry.keys)
    weights = [dict(zip(entry.term_ids, entry.weights, strict=True)) for entry in entries]
    for query in corpus(2, 20):
        distinct = list(dict.fromkeys(query))[:8]
        term_ids, keys = compute_query_terms(distinct, compute_salt(INDEX))
        idf = {
            each: math.log(1 + (len(documents) - frequencies[key] + 0.5) / (frequencies[key] + 0.5))
            for each, key in zip(term_ids, keys, strict=True)
            if frequencies[key]
        }
        ours = [sum(idf[each] * found.get(each, 0.0) for each in idf) for found in weights]
        theirs = reference.get_scores([term for term in distinct if term in reference.vocab_dict])
        assert ours == pytest.approx(theirs.tolist(), abs=1e-4)
        assert max(ours) > 1


def test_build_entry_returns_sorted_terms_and_weights() -> None:
    entry = build_entry(["b", "a", "b", "c"], salt=7, avgdl=8)
    assert entry.length == 4
    assert entry.term_ids == sorted(map(compute_term_id, "abc"))
    norm = K1 * (1 - B + B * 4 / 8)
    assert dict(zip(entry.term_ids, entry.weights, strict=True)) == pytest.approx(
        {
            compute_term_id("a"): 1 / (1 + norm),
            compute_term_id("b"): 2 / (2 + norm),
            compute_term_id("c"): 1 / (1 + norm),
        }
    )
    assert entry.keys == [compute_term_key(each, 7) for each in entry.term_ids]
    assert all(type(key) is int for key in entry.keys + entry.term_ids)
    assert all(type(weight) is float for weight in entry.weights)


def test_build_entries_of_empty_document_are_empty() -> None:
    assert build_entry([], salt=1, avgdl=10) == LexicalEntry(0, [], [], [])
    assert build_entries([], salt=1, avgdl=10) == []


@pytest.mark.parametrize("avgdl", [0, -1, float("nan")])
def test_build_entry_invalid_average_length_is_refused(avgdl: float) -> None:
    with pytest.raises(ValueError, match="avgdl"):
        build_entry(["a"], salt=1, avgdl=avgdl)


def test_build_entries_batch_equals_single() -> None:
    documents = corpus(3, 40)
    batch = build_entries(iter(documents), salt=compute_salt(INDEX), avgdl=80)
    assert batch == [build_entry(tokens, salt=compute_salt(INDEX), avgdl=80) for tokens in documents]


def test_term_keys_fit_and_are_unique() -> None:
    tokens = [f"term{n}" for n in range(MAX_TERMS)]
    for index_salt in (compute_salt(INDEX), 0, 0xFFFFFFFF):
        entry = build_entry(tokens, salt=index_salt, avgdl=100)
        assert len(entry.keys) == len(set(entry.keys)) == len(entry.term_ids)
        assert -(2**31) <= min(entry.keys) < 0 < max(entry.keys) < 2**31
        assert sorted(compute_query_terms(tokens, index_salt)[1]) == sorted(entry.keys)
        assert 0 <= entry.term_ids[0] < entry.term_ids[-1] < DIMENSIONS
        assert entry.term_ids == sorted(set(entry.term_ids))


def test_build_entries_chunk_with_too_many_terms_is_named() -> None:
    most = [f"term{n}" for n in range(MAX_TERMS)]
    assert len(build_entry([*most, "term7"], salt=1, avgdl=100).term_ids) == MAX_TERMS
    with pytest.raises(TooManyTerms, match="index 1 has 16,001 different terms; the limit is 16,000") as told:
        build_entries([most, [*most, "other"]], salt=1, avgdl=100)
    assert (told.value.code, told.value.fields) == ("too_large", {"index": 1})


def test_mix32_is_a_bijection() -> None:
    rng = random.Random(4)
    values = [0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, *(rng.randrange(1 << 32) for _ in range(5_000))]
    assert [unmix32(murmur_finalize(value)) for value in values] == values
    assert murmur_finalize(1) == 0x514E28B7
    assert murmur_finalize(0) == 0


def test_term_hashes_are_stable() -> None:
    assert (compute_term_id("retrieval"), compute_term_id("日本"), compute_salt(INDEX)) == (
        720185183,
        566445370,
        749178157,
    )


def test_term_keys_of_indexes_are_separate() -> None:
    terms = [f"term{n}" for n in range(2_000)]
    assert compute_salt(INDEX) != compute_salt(OTHER)
    assert not set(compute_query_terms(terms, compute_salt(INDEX))[1]) & set(
        compute_query_terms(terms, compute_salt(OTHER))[1]
    )


def test_compute_query_terms_are_distinct_and_ordered() -> None:
    term_ids, keys = compute_query_terms(["b", "a", "b"], 5)
    assert term_ids == [compute_term_id("b"), compute_term_id("a")]
    assert keys == [compute_term_key(compute_term_id("b"), 5), compute_term_key(compute_term_id("a"), 5)]
    assert compute_query_terms([], 5) == ([], [])
