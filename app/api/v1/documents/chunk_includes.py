"""Query parameter that adds fields to chunks."""

from typing import Annotated

from fastapi import Depends, Query

from app.api.http.request_models import Text
from app.graph.includes import parse_include_names


def _parse_include(
    include: Annotated[
        Text | None,
        Query(
            max_length=100,
            description="Fields to add to each chunk, separated by commas: `entities` that the chunk names, "
            "`parent_summaries` of the sections above it, `keywords` of its section.",
            examples=["entities,keywords"],
        ),
    ] = None,
) -> list[str]:
    names = [name.strip() for name in (include or "").split(",") if name.strip()]
    return parse_include_names(names, loc=("query", "include"))


IncludeNames = Annotated[list[str], Depends(_parse_include)]
