"""Search settings of an evaluation: bodies of searches without a query."""

from typing import Any

from pydantic import ValidationError

from app.api.v1.search.search import MultiSearchRequest
from app.errors import InvalidInputError
from app.filters import compile_filter
from app.retrieval.strategies import find_strategy, parse_strategy_options
from app.retrieval.types import SearchRequest

QUERY_FIELDS = ("query", "queries", "messages")
# Fields that add something to the results, and change no rank.
RESULT_FIELDS = ("explain", "include", "return_vectors")


def parse_settings(bodies: list[dict[str, Any]]) -> list[SearchRequest]:
    """Return the search requests of settings. Raises InvalidInputError."""
    return [_parse_setting(body, ("body", "settings", number)) for number, body in enumerate(bodies)]


def _parse_setting(body: dict[str, Any], location: tuple[str | int, ...]) -> SearchRequest:
    for name in (*QUERY_FIELDS, *RESULT_FIELDS):
        if name in body:
            reason = (
                "The queries come from the golden set" if name in QUERY_FIELDS else "An evaluation returns ranks only"
            )
            raise InvalidInputError(f"{reason}. Remove {name}.", loc=(*location, name))
    try:
        parsed = MultiSearchRequest.model_validate({**body, "query": "a query"})
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_input=False, include_context=False)[0]
        raise InvalidInputError(first["msg"], loc=(*location, *first["loc"])) from None
    if parsed.strategy is not None:
        strategy = find_strategy(parsed.strategy, loc=(*location, "strategy"))
        parse_strategy_options(strategy, parsed.strategy_options, loc=(*location, "strategy_options"))
    compile_filter(parsed.filter, loc=(*location, "filter"))
    try:
        return parsed.to_search_request(parsed.knowledge_bases)
    except InvalidInputError as exc:
        exc.loc = (*location, *exc.loc[1:])
        raise
