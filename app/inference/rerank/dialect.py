"""Dialects of rerank endpoints: the body of a request, and the position of the scores in an answer."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class RerankRequest:
    """One request: ``top_n`` is how many scores are wanted of those of ``texts``."""

    model: str | None
    query: str
    texts: Sequence[str]
    top_n: int


@dataclass(frozen=True, slots=True)
class RerankDialect:
    """How one family is spoken to.

    ``results_field`` names the list in an answer, None where the answer is that list; ``score_field`` names a number in
    each entry, next to ``index``. ``max_documents`` limits the documents of a request, unless the settings do.
    """

    build_body: Callable[[RerankRequest], Mapping[str, Any]]
    results_field: str | None
    score_field: str
    max_documents: int
