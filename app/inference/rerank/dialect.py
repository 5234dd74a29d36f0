"""What the families of rerank endpoints differ in: the body of a request, and where an answer has its scores."""

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
    each entry, beside ``index``. ``max_documents`` is what a request may hold, unless the settings say otherwise.
    """

    build_body: Callable[[RerankRequest], Mapping[str, Any]]
    results_field: str | None
    score_field: str
    max_documents: int
