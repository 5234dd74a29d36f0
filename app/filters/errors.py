"""What the database says to a filter that it cannot evaluate."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError

from app.errors import InvalidInputError
from app.filters.values import Loc

# Of SQLSTATE: no jsonpath or no JSON, a variable that is not there, a pattern that is none, a number out of range, JSON
# that a path cannot be applied to; and what is too complex, by its class.
_SQLSTATES = frozenset({"22P02", "22P05", "22021", "42601", "42704", "2201B", "22003"})
_SQLSTATE_CLASSES = ("2203", "54")


@contextmanager
def translate_filter_errors(*, loc: Loc) -> Iterator[None]:
    """Raise InvalidInputError where it is the filter in a statement that the database refuses.

    What compiles is meant to be evaluated; this is for what nobody has thought of: the caller's mistake, not ours.
    """
    try:
        yield
    except DBAPIError as exc:
        state = str(getattr(exc.orig, "sqlstate", None) or "")
        if state in _SQLSTATES or state.startswith(_SQLSTATE_CLASSES):
            raise InvalidInputError("The database does not evaluate this filter.", loc=loc) from exc
        raise
