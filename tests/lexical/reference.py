"""BM25 scores of bm25s, with a mean length other than the corpus's."""

from collections.abc import Callable, Sequence

import bm25s
import numpy as np

K1, B = 1.2, 0.75


def bm25s_scorer(
    texts: Sequence[Sequence[str]], *, avgdl: float | None = None
) -> Callable[[Sequence[str]], list[float]]:
    """Return a function that scores each text for a query of terms; a repeated term counts once.

    bm25s takes the mean length A from its own corpus. k1' = k1 (1 - b + b A / avgdl) and b' = k1 b A / avgdl / k1'
    give the same denominators as k1, b and ``avgdl``.
    """
    ratio = 1.0 if avgdl is None else float(np.mean([len(each) for each in texts])) / avgdl
    k1 = K1 * (1 - B + B * ratio)
    model = bm25s.BM25(method="lucene", k1=k1, b=K1 * B * ratio / k1, dtype="float64")
    model.index(texts, show_progress=False)

    def scores(query: Sequence[str]) -> list[float]:
        known = [term for term in dict.fromkeys(query) if term in model.vocab_dict]
        return model.get_scores(known).tolist() if known else [0.0] * len(texts)

    return scores
