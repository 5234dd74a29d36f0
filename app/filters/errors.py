"""Translation of database errors that a filter causes."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError

from app.errors import InvalidInputError
from app.filters.values import Loc

# SQLSTATEs of invalid jsonpath or JSON text, invalid characters, unknown variables, invalid patterns, and numbers out
# of range. The classes are SQL/JSON errors and exceeded limits.
_SQLSTATES = frozenset({"22P02", "22P05", "22021", "42601", "42704", "2201B", "22003"})
_SQLSTATE_CLASSES = ("2203", "54")


@contextmanager
def translate_filter_errors(*, loc: Loc) -> Iterator[None]:
    """Translate a database error that the filter of a statement causes.

    Every compiled filter should be valid for the database. An unforeseen refusal is reported as a fault of the caller's
    filter, not of the service.

    Args:
        loc: Location of the filter in the request.

    Raises:
        InvalidInputError: The database cannot evaluate the filter.
    """
    try:
        yield
    except DBAPIError as exc:
        state = str(getattr(exc.orig, "sqlstate", None) or "")
        if state in _SQLSTATES or state.startswith(_SQLSTATE_CLASSES):
            raise InvalidInputError(
                "The database cannot evaluate this filter. Check its values, or make it simpler.", loc=loc
            ) from exc
        raise
