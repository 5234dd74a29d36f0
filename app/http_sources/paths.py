"""Paths into a reply: a part of JMESPath that only chooses, so that what it costs is bounded by what it reads.

Functions and multiselects are left out: ``[@,@] | [@,@] | …`` doubles at each step, and ``to_string`` writes it out.
What is left visits a value at most once for each of its own steps.
"""

from collections.abc import Iterator
from typing import Any

import jmespath
from jmespath.exceptions import JMESPathError

MAX_PATH_CHARACTERS, MAX_STEPS = 200, 40
# As the parser names its steps; the names of the rest, and their reason, are told to whoever uses one.
_ALLOWED_STEPS = frozenset(
    """field subexpression index index_expression slice projection value_projection filter_projection flatten pipe
    or_expression and_expression not_expression comparator literal current identity""".split()  # noqa: SIM905
)
# A comparison of a number with a word, a slice of step 0, a comparison of values that are nested too deeply.
EVALUATION_ERRORS = (JMESPathError, TypeError, ValueError, RecursionError)


class InvalidPath(ValueError):
    """The path is none, or one that is not allowed."""


def compile_path(path: str) -> Any:
    """Ready for ``search``. Raises InvalidPath."""
    if len(path) > MAX_PATH_CHARACTERS:
        raise InvalidPath(f"It has more than {MAX_PATH_CHARACTERS} characters.")
    try:
        expression = jmespath.compile(path)
        steps = list(_iterate_steps(expression.parsed))
    except (JMESPathError, ValueError, RecursionError):
        raise InvalidPath("It is no JMESPath expression.") from None
    if disallowed := sorted(set(steps) - _ALLOWED_STEPS):
        raise InvalidPath(
            f"Paths only choose, without functions and multiselects; this one has: {', '.join(disallowed)}."
        )
    if len(steps) > MAX_STEPS:
        raise InvalidPath(f"It has more than {MAX_STEPS} steps.")
    return expression


def _iterate_steps(node: Any) -> Iterator[str]:
    yield node["type"]
    for child in node.get("children", ()):
        if isinstance(child, dict):  # a slice's are numbers
            yield from _iterate_steps(child)
