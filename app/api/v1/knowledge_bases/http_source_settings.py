"""HTTP source of a knowledge base of kind ``http``."""

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
    """Check that a body is JSON that can be stored. The depth is checked first and without recursion, because the
    encoder recurses.
    """
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
    """Reference to a secret of the operator."""

    secret: Annotated[str, StringConstraints(min_length=1, max_length=100), STORABLE] = Field(
        description="Name of the secret in `CARREL_HTTP_SOURCES`, 1 to 100 characters. Its value is never shown.",
        examples=["help-center-token"],
    )


class HttpSourceResponsePaths(StrictRequestModel):
    """Paths to the results in a response: JMESPath without functions and multiselects, 1 to 200 characters."""

    items: ResponsePath = Field(description="Path to the list of results.", examples=["data.hits"])
    text: ResponsePath = Field(description="Path to the text in a result.", examples=["body"])
    title: ResponsePath | None = Field(None, description="Path to the title in a result.", examples=["title"])
    url: ResponsePath | None = Field(None, description="Path to the address in a result.", examples=["link"])
    score: ResponsePath | None = Field(
        None,
        description="Path to the score in a result; higher is better. Without it, the order of the response counts.",
        examples=["rank"],
    )


class HttpSourceRequest(StrictRequestModel):
    """HTTP request that searches an external service. The service replaces ``{query}`` and ``{top_k}`` in ``params``
    and in strings of ``body``.

    The operator's settings must allow the address, method, parameters and headers of the request.
    """

    url: Annotated[str, StringConstraints(max_length=2000), STORABLE] = Field(
        description="Address of the search, at most 2,000 characters.", examples=["https://help.example.com/api/search"]
    )
    method: Literal["GET", "POST"] = Field("GET", description="HTTP method.", examples=["GET"])
    params: Annotated[dict[Value, Value | Number], Field(max_length=50)] = Field(
        default_factory=dict,
        description="Parameters of the query string, at most 50.",
        examples=[{"q": "{query}", "limit": "{top_k}"}],
    )
    headers: Annotated[dict[str, Value | SecretReference], Field(max_length=20)] = Field(
        default_factory=dict,
        description="Headers, at most 20; a value is a text or a reference to a secret.",
        examples=[{"Authorization": {"secret": "help-center-token"}}],
    )
    body: Annotated[Any, AfterValidator(_check_template)] = Field(
        None, description="JSON body of a POST, at most 16,000 characters and 20 levels deep.", examples=[None]
    )
    response: HttpSourceResponsePaths = Field(description="Paths to the results in the response.")
    domains: Annotated[list[Domain], Field(max_length=50)] = Field(
        default_factory=list,
        description="Only results whose address is on one of these domains or their subdomains; empty for all. At "
        "most 50.",
        examples=[["help.example.com"]],
    )
    timeout_seconds: float = Field(
        3.0, ge=0.1, le=30, description="Time limit of a request in seconds, 0.1 to 30.", examples=[3.0]
    )

    def to_source(self) -> HttpSource:
        """Convert the body to an HTTP source."""
        return HttpSource(**self.model_dump() | {"response": ResponsePaths(**self.response.model_dump())})


class HttpSourceOut(BaseModel):
    """HTTP request that searches an external service. Secrets appear by name only."""

    url: str = Field(description="Address of the search.", examples=["https://help.example.com/api/search"])
    method: Literal["GET", "POST"] = Field(description="HTTP method.", examples=["GET"])
    params: dict[str, str | int] = Field(
        description="Parameters of the query string.", examples=[{"q": "{query}", "limit": "{top_k}"}]
    )
    headers: dict[str, str | SecretReference] = Field(
        description="Headers; a value is a text or a reference to a secret.",
        examples=[{"Authorization": {"secret": "help-center-token"}}],
    )
    body: Any = Field(description="JSON body of a POST; null without one.", examples=[None])
    response: HttpSourceResponsePaths = Field(description="Paths to the results in the response.")
    domains: list[str] = Field(
        description="Domains that results are limited to; empty for all.", examples=[["help.example.com"]]
    )
    timeout_seconds: float = Field(description="Time limit of a request in seconds.", examples=[3.0])
