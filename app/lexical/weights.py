"""BM25 weights in the form the lexical lane stores: hashed terms, saturated frequencies and salted keys."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from uuid import UUID

import numpy as np
import numpy.typing as npt

from app.errors import TooLargeError

K1 = 1.2
B = 0.75
# pgvector's sparsevec holds at most a thousand million dimensions.
DIMENSIONS = 1_000_000_000
# And so many of them in one row.
MAX_TERMS = 16_000
# To make an array takes as long as so many keys.
MIN_ARRAY_LENGTH = 40
_MASK = 0xFFFFFFFF


class TooManyTerms(TooLargeError):
    """A chunk has more different terms than one can be found by."""

    def __init__(self, index: int, terms: int) -> None:
        limit = f"it can be found by {MAX_TERMS:,}"
        super().__init__(f"The chunk at index {index} has {terms:,} different terms; {limit}.", index=index)


@dataclass(frozen=True, slots=True)
class LexicalEntry:
    """One chunk in the lexical lane.

    ``length`` counts its terms with repeats; ``term_ids`` are sorted and distinct, in [0, DIMENSIONS), with one of
    ``weights`` and one of ``keys`` each: in (0, 1), and distinct, signed 32-bit.
    """

    length: int
    term_ids: list[int]
    weights: list[float]
    keys: list[int]


def compute_term_id(term: str) -> int:
    """The term's dimension, in [0, DIMENSIONS): blake2b, so that it is the same in every process and release."""
    return int.from_bytes(blake2b(term.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big") % DIMENSIONS


def compute_salt(index_id: UUID) -> int:
    """What sets one search index's keys apart from another's, in [0, 2**32)."""
    return int.from_bytes(blake2b(index_id.bytes, digest_size=4).digest(), "big")


def murmur_finalize(value: int) -> int:
    """A bijection on [0, 2**32): the finalizer fmix32 of MurmurHash3 (Austin Appleby, public domain)."""
    value ^= value >> 16
    value = value * 0x85EBCA6B & _MASK
    value ^= value >> 13
    value = value * 0xC2B2AE35 & _MASK
    return value ^ value >> 16


def compute_term_key(term_id: int, salt: int) -> int:
    """The term's key in one search index, signed 32-bit; different terms never share one."""
    mixed = murmur_finalize((term_id + salt) & _MASK)
    return mixed - (1 << 32) if mixed >> 31 else mixed


def build_entry(tokens: Sequence[str], *, salt: int, k1: float = K1, b: float = B, avgdl: float) -> LexicalEntry:
    """The entry of one chunk; ``avgdl`` is the search index's frozen average length in terms."""
    return build_entries([tokens], salt=salt, k1=k1, b=b, avgdl=avgdl)[0]


def build_entries(
    documents: Iterable[Sequence[str]], *, salt: int, k1: float = K1, b: float = B, avgdl: float
) -> list[LexicalEntry]:
    """The entries of many chunks, in their order, as ``iterate_entries`` makes them."""
    return list(iterate_entries(documents, salt=salt, k1=k1, b=b, avgdl=avgdl))


def iterate_entries(
    documents: Iterable[Sequence[str]], *, salt: int, k1: float = K1, b: float = B, avgdl: float
) -> Iterator[LexicalEntry]:
    """Yield the entries of many chunks, in their order.

    A weight is tf / (tf + k1 * (1 - b + b * length / avgdl)): the document's half of Lucene's BM25 (Kamphuis et al.,
    "Which BM25 Do You Mean?", 2020); the idf is the query's half. Raises TooManyTerms, and ValueError where ``avgdl``
    is not above 0.
    """
    if not avgdl > 0:
        raise ValueError("avgdl must be above 0")
    ids: dict[str, int] = {}
    for index, tokens in enumerate(documents):
        frequencies = _count_frequencies(tokens, ids)
        if len(frequencies) > MAX_TERMS:
            raise TooManyTerms(index, len(frequencies))
        term_ids = np.fromiter(frequencies.keys(), np.int64, len(frequencies))
        tf = np.fromiter(frequencies.values(), np.float64, len(frequencies))
        order = np.argsort(term_ids)
        term_ids, tf = term_ids[order], tf[order]
        weights = tf / (tf + k1 * (1 - b + b * len(tokens) / avgdl))
        keys = _compute_keys(term_ids, salt)
        yield LexicalEntry(len(tokens), term_ids.tolist(), weights.tolist(), keys.tolist())


def recompute_weights(
    weights: npt.NDArray[np.float64],
    lengths: npt.NDArray[np.float64],
    *,
    k1: float = K1,
    b: float = B,
    avgdl: tuple[float, float],
) -> npt.NDArray[np.float64]:
    """Weights made with the first average length as the second gives them; ``lengths`` are their chunks'.

    A weight says its frequency: tf = w * K / (1 - w), a whole number. Single precision, in which weights are stored,
    tells frequencies apart up to some thousands; beyond that weights are 1 but for what it cannot tell either.
    """
    before, after = (k1 * (1 - b + b * lengths / each) for each in avgdl)
    weights = np.minimum(weights, 1 - 2.0**-24)
    tf = np.maximum(np.rint(weights * before / (1 - weights)), 1)
    return tf / (tf + after)


def recompute_entry_weights(entries: Sequence[LexicalEntry], *, avgdl: tuple[float, float]) -> list[LexicalEntry]:
    """Entries made with the first average length as the second gives them."""
    return [
        replace(
            entry,
            weights=recompute_weights(np.asarray(entry.weights), np.full(1, float(entry.length)), avgdl=avgdl).tolist(),
        )
        for entry in entries
    ]


def compute_query_terms(tokens: Sequence[str], salt: int) -> tuple[list[int], list[int]]:
    """The distinct terms of a query as ids and keys, in one order: that of their first use."""
    term_ids = compute_query_term_ids(tokens)
    return term_ids, compute_query_keys(term_ids, salt)


def compute_query_term_ids(tokens: Sequence[str]) -> list[int]:
    """The ids of the distinct terms of a query, in the order of their first use."""
    return list(dict.fromkeys(map(compute_term_id, tokens)))


def compute_query_keys(term_ids: Sequence[int], salt: int) -> list[int]:
    """Their keys in one search index, in their order."""
    if len(term_ids) < MIN_ARRAY_LENGTH:
        return [compute_term_key(each, salt) for each in term_ids]
    keys: list[int] = _compute_keys(np.array(term_ids, np.int64), salt).tolist()
    return keys


def _count_frequencies(tokens: Sequence[str], ids: dict[str, int]) -> dict[int, int]:
    """How often each term id occurs; ``ids`` remembers the hashes of one batch."""
    frequencies: dict[int, int] = {}
    for term, count in Counter(tokens).items():
        hashed = ids.get(term)
        if hashed is None:
            hashed = ids[term] = compute_term_id(term)
        # Two terms may share an id: they count as one term.
        frequencies[hashed] = frequencies.get(hashed, 0) + count
    return frequencies


def _compute_keys(term_ids: npt.NDArray[np.int64], salt: int) -> npt.NDArray[np.int32]:
    """``compute_term_key`` over an array; unsigned 32-bit arithmetic wraps as the scalar's mask does."""
    value = (term_ids + salt).astype(np.uint32)
    value ^= value >> np.uint32(16)
    value *= np.uint32(0x85EBCA6B)
    value ^= value >> np.uint32(13)
    value *= np.uint32(0xC2B2AE35)
    value ^= value >> np.uint32(16)
    return value.view(np.int32)
