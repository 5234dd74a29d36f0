"""Types and base classes of the schemas of the REST API."""

from datetime import datetime
from typing import Annotated, Any, Generic, TypeVar
from urllib.parse import urlsplit

from fastapi import Path
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainSerializer, StringConstraints

from app.api.http import example_values
from app.api.http.request_models import STORABLE, RequestModel
from app.api.http.warning_schema import WarningOut
from app.documents.scopes import MAX_SCOPE_ID_LENGTH
from app.errors import InvalidInputError
from app.filters import check_metadata
from app.text_normalization import has_long_mark_run
from app.times import to_utc_time

ItemT = TypeVar("ItemT")


SourceStart = Annotated[
    int | None,
    Field(
        description="Offset of the first character of the text in the decoded text of the file, always in code points. "
        "Only present if the position is known.",
        examples=[6204],
        exclude_if=lambda offset: offset is None,
    ),
]
SourceEnd = Annotated[
    int | None,
    Field(
        description="Offset behind the last character of the text in the decoded text of the file, always in code "
        "points. Only present with `source_start`.",
        examples=[6255],
        exclude_if=lambda offset: offset is None,
    ),
]


def _check_web_address(value: str) -> str:
    """Check that an address begins with http or https. The service only shows the address, and never fetches it."""
    if has_long_mark_run(value):  # checked first: parsing normalizes the host, which takes long for such text
        raise ValueError("must be an http or https URL")
    parts = urlsplit(value)
    is_plain = value.isprintable() and " " not in value
    if parts.scheme.lower() not in ("http", "https") or not parts.hostname or not is_plain:
        raise ValueError("must be an http or https URL")
    return value


def _check_metadata(value: dict[str, Any]) -> dict[str, Any]:
    try:
        return check_metadata(value)
    except InvalidInputError as exc:
        location = ".".join(map(str, exc.loc[1:]))
        raise ValueError(f"{exc.message} ({location})" if location else exc.message) from None


def _format_rfc3339(value: datetime) -> str:
    return to_utc_time(value).isoformat(timespec="milliseconds").replace("+00:00", "Z")


WebAddress = Annotated[str, StringConstraints(max_length=2048), STORABLE, AfterValidator(_check_web_address)]
Identifier = Annotated[str, StringConstraints(min_length=1, max_length=512), STORABLE]
ScopeId = Annotated[str, StringConstraints(min_length=1, max_length=MAX_SCOPE_ID_LENGTH), STORABLE]
AgentPath = Annotated[
    ScopeId,
    Path(description="Id of the agent on its platform, 1 to 256 characters.", examples=[example_values.AGENT_ID]),
]
# Media type of a text in a JSON body. The parsers of the installation decide which ones are known.
TextMediaType = Annotated[str, StringConstraints(min_length=1, max_length=200), STORABLE]
Title = Annotated[str, StringConstraints(min_length=1, max_length=500), STORABLE]
Metadata = Annotated[dict[str, Any], AfterValidator(_check_metadata)]
# Options of strategies, chunkers and transformers. The names of options are checked later. No component has more
# options than this limit.
Options = Annotated[dict[str, Any], Field(max_length=100)]
Time = Annotated[datetime, PlainSerializer(_format_rfc3339, return_type=str, when_used="json")]


class StrictRequestModel(RequestModel):
    """Body of a request. A field that is not known makes it invalid."""

    model_config = ConfigDict(extra="forbid")


class LargeRequestModel(BaseModel):
    """Body of a request of any size, which ``read_json_body`` parses from its bytes."""

    model_config = ConfigDict(extra="forbid")


class ListResponse(BaseModel, Generic[ItemT]):
    """Page of a list."""

    items: list[ItemT] = Field(description="Items of this page.")
    next_cursor: str | None = Field(
        None, description="Cursor of the next page; null on the last page.", examples=[example_values.CURSOR]
    )
    total: int | None = Field(
        None,
        description="Number of all items that match, on all pages. Only present with `count=true`.",
        examples=[128],
        exclude_if=lambda total: total is None,
    )
    warnings: list[WarningOut] = Field(
        default_factory=list,
        description="Warnings, for example `count_unavailable` if counting took too long. Only present with one.",
        examples=[[]],
        exclude_if=lambda warnings: not warnings,
    )
