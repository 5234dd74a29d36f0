"""Paths into a response: a subset of JMESPath whose evaluation time is limited by the size of the response.

Functions and multiselects are not allowed: ``[@,@] | [@,@] | …`` doubles the data at each step, and ``to_string``
copies it. The allowed steps visit each value of the response at most once per step.
"""

from collections.abc import Iterator
from typing import Any

import jmespath
from jmespath.exceptions import JMESPathError

MAX_PATH_CHARACTERS, MAX_STEPS = 200, 40
# Allowed steps by the names of the parser. The error message lists other steps of a path.
_ALLOWED_STEPS = frozenset(
    """field subexpression index index_expression slice projection value_projection filter_projection flatten pipe
    or_expression and_expression not_expression comparator literal current identity""".split()  # noqa: SIM905
)
# Errors of an evaluation: comparison of a number with a word, slice with step 0, comparison of deeply nested values.
EVALUATION_ERRORS = (JMESPathError, TypeError, ValueError, RecursionError)


class InvalidPath(ValueError):
    """The path is not valid, or not allowed."""


def compile_path(path: str) -> Any:
    """Return the compiled path, which has the method ``search``. Raises InvalidPath."""
    if len(path) > MAX_PATH_CHARACTERS:
        raise InvalidPath(f"It has more than {MAX_PATH_CHARACTERS} characters.")
    try:
        expression = jmespath.compile(path)
        steps = list(_iterate_steps(expression.parsed))
    except (JMESPathError, ValueError, RecursionError):
        raise InvalidPath("It is not a JMESPath expression.") from None
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
        if isinstance(child, dict):  # the children of a slice are numbers
            yield from _iterate_steps(child)
