"""Dialects of rerank endpoints: the body of a request, and the position of the scores in an answer."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class RerankRequest:
    """Request to a reranker.

    Attributes:
        model: Name of the model; None if the endpoint has only one.
        query: Text of the query.
        texts: Texts to score.
        top_n: Number of best texts that need a score.
    """

    model: str | None
    query: str
    texts: Sequence[str]
    top_n: int


@dataclass(frozen=True, slots=True)
class RerankDialect:
    """Format of the requests and answers of one family of rerank endpoints.

    Attributes:
        build_body: Builds the body of a request.
        results_field: Name of the list of results in an answer; None if the answer is the list itself.
        score_field: Name of the score in each result. The position of its text is in ``index``.
        max_documents: Maximum number of texts of a request, if the settings name none.
    """

    build_body: Callable[[RerankRequest], Mapping[str, Any]]
    results_field: str | None
    score_field: str
    max_documents: int
