"""Paths into a reply: a part of JMESPath that only chooses, so that what it costs is bounded by what it reads.

Functions and multiselects are left out: ``[@,@] | [@,@] | …`` doubles at each step, and ``to_string`` writes it out.
What is left visits a value at most once for each of its own steps.
"""

from collections.abc import Iterator
from typing import Any

import jmespath
from jmespath.exceptions import JMESPathError

LONGEST, MOST_STEPS = 200, 40
# As the parser names its steps; the names of the rest, and their reason, are told to whoever uses one.
_CHOOSING = frozenset(
    """field subexpression index index_expression slice projection value_projection filter_projection flatten pipe
    or_expression and_expression not_expression comparator literal current identity""".split()  # noqa: SIM905
)
# A comparison of a number with a word, a slice of step 0, a comparison of values that are nested too deeply.
FAILURES = (JMESPathError, TypeError, ValueError, RecursionError)


class PathRefused(ValueError):
    """The path is none, or one that is not allowed."""


def compiled(path: str) -> Any:
    """Ready for ``search``. Raises PathRefused."""
    if len(path) > LONGEST:
        raise PathRefused(f"It has more than {LONGEST} characters.")
    try:
        made = jmespath.compile(path)
        steps = list(_steps(made.parsed))
    except (JMESPathError, ValueError, RecursionError):
        raise PathRefused("It is no JMESPath expression.") from None
    if refused := sorted(set(steps) - _CHOOSING):
        raise PathRefused(f"Paths only choose, without functions and multiselects; this one has: {', '.join(refused)}.")
    if len(steps) > MOST_STEPS:
        raise PathRefused(f"It has more than {MOST_STEPS} steps.")
    return made


def _steps(node: Any) -> Iterator[str]:
    yield node["type"]
    for child in node.get("children", ()):
        if isinstance(child, dict):  # a slice's are numbers
            yield from _steps(child)
