"""BM25 weights for the lexical retriever: hashed terms, saturated frequencies and salted keys."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from uuid import UUID

import numpy as np
import numpy.typing as npt

from app.errors import TooLargeError
from app.lexical.analyzer import STOP_WORD_MARK

K1 = 1.2
B = 0.75
# Maximum number of dimensions of pgvector's sparsevec.
DIMENSIONS = 1_000_000_000
# Maximum number of nonzero elements of one sparsevec.
MAX_TERMS = 16_000
# Number of keys from which NumPy is faster than a loop, because creating an array takes time too.
MIN_ARRAY_LENGTH = 40
_MASK = 0xFFFFFFFF


class TooManyTerms(TooLargeError):
    """A chunk has more different terms than a lexical entry can store."""

    def __init__(self, index: int, terms: int) -> None:
        limit = f"the limit is {MAX_TERMS:,}. Use smaller chunks."
        super().__init__(f"The chunk at index {index} has {terms:,} different terms; {limit}", index=index)


@dataclass(frozen=True, slots=True)
class LexicalEntry:
    """Lexical index entry of one chunk. The three lists have the same length and order.

    Attributes:
        length: Number of terms of the chunk, with repeats and without stop words.
        term_ids: Distinct ids of the terms, sorted, in [0, DIMENSIONS).
        weights: Weight of each term, in (0, 1).
        keys: Distinct signed 32-bit key of each term.
    """

    length: int
    term_ids: list[int]
    weights: list[float]
    keys: list[int]


def compute_term_id(term: str) -> int:
    """Compute the dimension of a term, in [0, DIMENSIONS). The blake2b hash is equal in all processes and releases."""
    return int.from_bytes(blake2b(term.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big") % DIMENSIONS


def compute_salt(index_id: UUID) -> int:
    """Compute the salt of a search index, in [0, 2**32), so that equal terms have other keys in each search index."""
    return int.from_bytes(blake2b(index_id.bytes, digest_size=4).digest(), "big")


def murmur_finalize(value: int) -> int:
    """Apply the finalizer fmix32 of MurmurHash3 (Austin Appleby, public domain), a bijection on [0, 2**32)."""
    value ^= value >> 16
    value = value * 0x85EBCA6B & _MASK
    value ^= value >> 13
    value = value * 0xC2B2AE35 & _MASK
    return value ^ value >> 16


def compute_term_key(term_id: int, salt: int) -> int:
    """Compute the signed 32-bit key of a term in one search index. Different term ids have different keys."""
    mixed = murmur_finalize((term_id + salt) & _MASK)
    return mixed - (1 << 32) if mixed >> 31 else mixed


def build_entry(tokens: Sequence[str], *, salt: int, k1: float = K1, b: float = B, avgdl: float) -> LexicalEntry:
    """Build the lexical entry of one chunk; ``avgdl`` is the fixed average length of the search index in terms."""
    return build_entries([tokens], salt=salt, k1=k1, b=b, avgdl=avgdl)[0]


def build_entries(
    documents: Iterable[Sequence[str]], *, salt: int, k1: float = K1, b: float = B, avgdl: float
) -> list[LexicalEntry]:
    """Build the lexical entries of many chunks, in their order, with ``iterate_entries``."""
    return list(iterate_entries(documents, salt=salt, k1=k1, b=b, avgdl=avgdl))


def iterate_entries(
    documents: Iterable[Sequence[str]], *, salt: int, k1: float = K1, b: float = B, avgdl: float
) -> Iterator[LexicalEntry]:
    """Yield the lexical entries of many chunks, in their order.

    A weight is ``tf / (tf + k1 * (1 - b + b * length / avgdl))``, the document's factor of Lucene's BM25. The query
    supplies the idf factor. Source: Kamphuis et al., "Which BM25 Do You Mean?", 2020.

    Args:
        documents: Terms of each chunk, with repeats.
        salt: Salt of the search index.
        k1: Saturation of the term frequency.
        b: Strength of the length normalization, from 0 to 1.
        avgdl: Fixed average length of the search index, in terms.

    Raises:
        TooManyTerms: A chunk has more than ``MAX_TERMS`` different terms.
        ValueError: ``avgdl`` is not above 0.
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
        length = sum(not token.startswith(STOP_WORD_MARK) for token in tokens)
        weights = tf / (tf + k1 * (1 - b + b * length / avgdl))
        keys = _compute_keys(term_ids, salt)
        yield LexicalEntry(length, term_ids.tolist(), weights.tolist(), keys.tolist())


def recompute_weights(
    weights: npt.NDArray[np.float64],
    lengths: npt.NDArray[np.float64],
    *,
    k1: float = K1,
    b: float = B,
    avgdl: tuple[float, float],
) -> npt.NDArray[np.float64]:
    """Recompute weights for a new average length.

    A weight determines its term frequency: ``tf = w * K / (1 - w)``, rounded, with ``K = k1 * (1 - b + b * length /
    avgdl)``. Weights are stored in single precision, which distinguishes frequencies up to some thousands. Higher
    frequencies give weights so close to 1 that their exact frequency makes no difference.

    Args:
        weights: Weights that were computed with the old average length.
        lengths: Length of each weight's chunk, in terms.
        k1: Saturation of the term frequency.
        b: Strength of the length normalization.
        avgdl: Old and new average length.

    Returns:
        The weights for the new average length.
    """
    before, after = (k1 * (1 - b + b * lengths / each) for each in avgdl)
    weights = np.minimum(weights, 1 - 2.0**-24)
    tf = np.maximum(np.rint(weights * before / (1 - weights)), 1)
    return tf / (tf + after)


def recompute_entry_weights(entries: Sequence[LexicalEntry], *, avgdl: tuple[float, float]) -> list[LexicalEntry]:
    """Return copies of the entries, with weights for the new average length; ``avgdl`` is the old and new one."""
    return [
        replace(
            entry,
            weights=recompute_weights(np.asarray(entry.weights), np.full(1, float(entry.length)), avgdl=avgdl).tolist(),
        )
        for entry in entries
    ]


def compute_query_terms(tokens: Sequence[str], salt: int) -> tuple[list[int], list[int]]:
    """Return the distinct terms of a query as ids and keys, in the order of their first use."""
    term_ids = compute_query_term_ids(tokens)
    return term_ids, compute_query_keys(term_ids, salt)


def compute_query_term_ids(tokens: Sequence[str]) -> list[int]:
    """Return the ids of the distinct terms of a query, in the order of their first use."""
    return list(dict.fromkeys(map(compute_term_id, tokens)))


def compute_query_keys(term_ids: Sequence[int], salt: int) -> list[int]:
    """Return the keys of terms in one search index, in the order of ``term_ids``."""
    if len(term_ids) < MIN_ARRAY_LENGTH:
        return [compute_term_key(each, salt) for each in term_ids]
    keys: list[int] = _compute_keys(np.array(term_ids, np.int64), salt).tolist()
    return keys


def _count_frequencies(tokens: Sequence[str], ids: dict[str, int]) -> dict[int, int]:
    """Count each term id; ``ids`` caches the hashes of one batch."""
    frequencies: dict[int, int] = {}
    for term, count in Counter(tokens).items():
        hashed = ids.get(term)
        if hashed is None:
            hashed = ids[term] = compute_term_id(term)
        # Two terms with the same id count as one term.
        frequencies[hashed] = frequencies.get(hashed, 0) + count
    return frequencies


def _compute_keys(term_ids: npt.NDArray[np.int64], salt: int) -> npt.NDArray[np.int32]:
    """Apply ``compute_term_key`` to an array. Unsigned 32-bit arithmetic wraps, so no mask is needed."""
    value = (term_ids + salt).astype(np.uint32)
    value ^= value >> np.uint32(16)
    value *= np.uint32(0x85EBCA6B)
    value ^= value >> np.uint32(13)
    value *= np.uint32(0xC2B2AE35)
    value ^= value >> np.uint32(16)
    return value.view(np.int32)
