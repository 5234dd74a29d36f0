"""The source of a knowledge base of kind http, as callers say it."""

import json
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field, StringConstraints

from app.api.http.request_models import STORABLE
from app.api.v1.schemas import StrictRequestModel
from app.http_sources.types import HttpSource, ResponsePaths

ResponsePath = Annotated[str, StringConstraints(min_length=1, max_length=200), STORABLE]
Value = Annotated[str, StringConstraints(max_length=2000), STORABLE]
Domain = Annotated[str, StringConstraints(pattern=r"^[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?$")]

MAX_BODY_CHARACTERS, MAX_BODY_DEPTH = 16_000, 20


def _check_template(value: Any) -> Any:
    """JSON that can be kept. Its depth is looked at first, without recursion, for what follows is recursive."""
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > MAX_BODY_DEPTH:
            raise ValueError(f"must not be nested deeper than {MAX_BODY_DEPTH}")
        level = [inner for item in level for inner in _list_children(item)]
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        text.encode()
    except ValueError:
        raise ValueError("must be valid Unicode and numbers") from None
    if len(text) > MAX_BODY_CHARACTERS or "\\u0000" in text:
        raise ValueError(f"must have at most {MAX_BODY_CHARACTERS} characters, and none of them NUL")
    return value


def _list_children(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []


Number = Annotated[int, Field(strict=True, ge=-(2**53), le=2**53)]


class SecretReference(StrictRequestModel):
    """A secret of the operator's, by its name (CARREL_HTTP_SOURCES); its value is never shown."""

    secret: Annotated[str, StringConstraints(min_length=1, max_length=100), STORABLE]


class HttpSourceResponsePaths(StrictRequestModel):
    """Where a reply has what it has found.

    JMESPath without functions and multiselects: ``items`` is a list, and the others are looked for in each item. The
    greater ``score`` is the better; without one the order is the reply's.
    """

    items: ResponsePath
    text: ResponsePath
    title: ResponsePath | None = None
    url: ResponsePath | None = None
    score: ResponsePath | None = None


class HttpSourceRequest(StrictRequestModel):
    """How another's search is asked: ``{query}`` and ``{top_k}`` are filled in, in ``params`` and strings of ``body``.

    The operator's binding must allow address, method, parameters and headers. With ``domains`` a result counts only
    where its url is on one of them or below.
    """

    url: Annotated[str, StringConstraints(max_length=2000), STORABLE]
    method: Literal["GET", "POST"] = "GET"
    params: Annotated[dict[Value, Value | Number], Field(max_length=50)] = Field(default_factory=dict)
    headers: Annotated[dict[str, Value | SecretReference], Field(max_length=20)] = Field(default_factory=dict)
    body: Annotated[Any, AfterValidator(_check_template)] = Field(
        None, description="The JSON that a POST sends, at most 16,000 characters"
    )
    response: HttpSourceResponsePaths
    domains: Annotated[list[Domain], Field(max_length=50)] = Field(default_factory=list)
    timeout_seconds: float = Field(3.0, ge=0.1, le=30)

    def to_http_source(self) -> HttpSource:
        """The room's form of it."""
        return HttpSource(**self.model_dump() | {"response": ResponsePaths(**self.response.model_dump())})


class HttpSourceOut(BaseModel):
    """How another's search is asked; of a secret there is its name."""

    url: str
    method: Literal["GET", "POST"]
    params: dict[str, str | int]
    headers: dict[str, str | SecretReference]
    body: Any
    response: HttpSourceResponsePaths
    domains: list[str]
    timeout_seconds: float
