"""Registry of includes: additions to hits and chunks that a caller requests by name."""

from collections.abc import Mapping, Sequence

from app.errors import InvalidInputError
from app.graph.includes import entities, keywords, parent_summaries
from app.graph.includes.include import Include

INCLUDES: Mapping[str, Include] = {
    module.INCLUDE.name: module.INCLUDE for module in (entities, parent_summaries, keywords)
}


def parse_include_names(names: Sequence[str], *, loc: tuple[str | int, ...]) -> list[str]:
    """Return the distinct names of includes.

    Args:
        names: Names that the caller sent.
        loc: Location of the names in the request, for the error message.

    Raises:
        InvalidInputError: A name is unknown. The error lists the known names.
    """
    for number, name in enumerate(names):
        if name not in INCLUDES:
            raise InvalidInputError(f"Unknown include {name!r}. Use one of {', '.join(INCLUDES)}.", loc=(*loc, number))
    return list(dict.fromkeys(names))
