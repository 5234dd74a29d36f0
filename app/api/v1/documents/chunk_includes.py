"""Query parameter that adds fields to chunks, and the warnings about fields that were not loaded."""

from typing import Annotated

from fastapi import Depends, Query
from pydantic import BaseModel, Field

from app.api.http.request_models import Text
from app.api.http.warning_schema import WarningOut
from app.graph.includes import parse_include_names


class IncludeWarningsOut(BaseModel):
    """Warnings about includes."""

    warnings: list[WarningOut] = Field(
        default_factory=list,
        description="Warnings `include_skipped` about additions that were not loaded in time. Only present with one.",
        exclude_if=lambda warnings: not warnings,
    )


def _parse_include(
    include: Annotated[
        Text | None,
        Query(
            max_length=100,
            description="Fields to add to each chunk, separated by commas: `entities` that the chunk names, "
            "`parent_summaries` of the sections above it, `keywords` of its section. "
            "A slow one is left out with a warning.",
            examples=["entities,keywords"],
        ),
    ] = None,
) -> list[str]:
    names = [name.strip() for name in (include or "").split(",") if name.strip()]
    return parse_include_names(names, loc=("query", "include"))


IncludeNames = Annotated[list[str], Depends(_parse_include)]
