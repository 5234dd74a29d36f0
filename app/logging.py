"""The event log: one JSON object a line, an event's name and its fields, never content.

Whose text goes into a line is decided by where it comes from. Our own modules log events with fields. uvicorn and
alembic speak of the process alone: their sentences are kept. Any other library's message may quote what it was working
on, so a line of its says where it came from and no more. Of an exception there are class, code and places, never the
message: that may hold a document's text or a statement's parameters.
"""

import json
import logging
import math
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, date, datetime
from enum import Enum
from pathlib import PurePath
from traceback import walk_tb
from types import TracebackType
from typing import Any, Literal, TextIO
from uuid import UUID

LogLevel = Literal["debug", "info", "warning", "error"]

MAX_TEXT_CHARACTERS = 500
MAX_FRAMES = 25
MAX_CAUSES = 5
RESERVED_FIELDS = {"time", "level", "logger", "event", "request_id", "tenant_id", "job_id", "error"}
# Loggers whose sentences are about the process, never about a request's or a document's content.
TRUSTED_LOGGERS = ("uvicorn", "alembic")

_context: ContextVar[Mapping[str, str]] = ContextVar("log_context", default={})  # noqa: B039  # never changed in place
_TRACE_LINE = re.compile(r'^ +File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<name>\S+)', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class EventLogger:
    """Logs events: ``logger.info("document.ready", chunks=40)``. Fields are numbers, ids and words, never content.

    A field ``error`` that is an exception is told by class, code and places, as are its causes.
    """

    target: logging.Logger

    def debug(self, event: str, /, **fields: object) -> None:
        self._log(logging.DEBUG, event, fields)

    def info(self, event: str, /, **fields: object) -> None:
        self._log(logging.INFO, event, fields)

    def warning(self, event: str, /, **fields: object) -> None:
        self._log(logging.WARNING, event, fields)

    def error(self, event: str, /, **fields: object) -> None:
        self._log(logging.ERROR, event, fields)

    def exception(self, event: str, /, **fields: object) -> None:
        """An error with the exception that is being handled."""
        self._log(logging.ERROR, event, {"error": sys.exception(), **fields})

    def _log(self, level: int, event: str, fields: dict[str, object]) -> None:
        if self.target.isEnabledFor(level):
            error = fields.get("error")
            exc_info = error if isinstance(error, BaseException) else None
            if exc_info is not None:
                del fields["error"]
            self.target.log(level, event, exc_info=exc_info, extra={"event_fields": fields})


def get_logger(name: str) -> EventLogger:
    """The logger of a module, by its ``__name__``."""
    return EventLogger(logging.getLogger(name))


@contextmanager
def bind_context(
    *, request_id: str | None = None, tenant_id: UUID | str | None = None, job_id: UUID | str | None = None
) -> Iterator[None]:
    """Put these ids into every line logged inside the block, in tasks and threads started from it too."""
    ids = {"request_id": request_id, "tenant_id": tenant_id, "job_id": job_id}
    bound = {name: str(value) for name, value in ids.items() if value is not None}
    token = _context.set({**_context.get(), **bound})
    try:
        yield
    finally:
        _context.reset(token)


def configure_logging(level: LogLevel, stream: TextIO | None = None) -> None:
    """Send every logger of the process to ``stream`` (standard error) as JSON; may be called again.

    uvicorn must be run with ``log_config=None`` and ``access_log=False``, or it puts its own handlers back.
    """
    handler = _JsonHandler(stream if stream is not None else sys.stderr)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    for old in [old for old in root.handlers if isinstance(old, _JsonHandler)]:
        root.removeHandler(old)
    root.addHandler(handler)
    threshold = logging.getLevelNamesMapping()[level.upper()]
    root.setLevel(max(threshold, logging.WARNING))
    logging.getLogger("app").setLevel(threshold)
    for name in TRUSTED_LOGGERS:
        logging.getLogger(name).setLevel(max(threshold, logging.INFO))
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi", "alembic"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
    # Its lines hold whole URLs, query strings included; the service writes an access log of its own.
    logging.getLogger("uvicorn.access").disabled = True


class _JsonHandler(logging.StreamHandler[TextIO]):
    """The one handler of the process; ``configure_logging`` knows it again by its class."""

    def handleError(self, record: logging.LogRecord) -> None:
        """Say nothing: logging's own report would print the message and its arguments, and must not stop the work."""


class JsonFormatter(logging.Formatter):
    """A record as one line of JSON: time, level, logger, event, bound ids, fields, error."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        fields = getattr(record, "event_fields", None)
        if isinstance(fields, Mapping):
            line["event"] = _to_json_value(record.msg)
            line.update(_context.get())
            line.update({_escape_reserved_name(name): _to_json_value(value) for name, value in fields.items()})
        else:
            line |= _describe_library_record(record)
            line.update(_context.get())
        if record.exc_info and record.exc_info[1] is not None:
            line["error"] = describe_error(record.exc_info[1])
        # ASCII: no line separator of Unicode's gets out, and no stream's encoding can refuse the line.
        return json.dumps(line, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def describe_error(error: BaseException, *, max_causes: int = MAX_CAUSES) -> dict[str, object]:
    """Class, code and places (innermost last) of an exception and of what caused it; no message, no values."""
    description: dict[str, object] = {"type": _format_type_name(error)}
    code = getattr(error, "code", None)
    if isinstance(code, str | int):
        description["code"] = _to_json_value(code)
    description["at"] = _format_frames(error.__traceback__)
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if max_causes > 0:
        if cause is not None:
            description["cause"] = describe_error(cause, max_causes=max_causes - 1)
        if isinstance(error, BaseExceptionGroup):
            description["errors"] = [
                describe_error(part, max_causes=max_causes - 1) for part in error.exceptions[:MAX_CAUSES]
            ]
    return description


def _describe_library_record(record: logging.LogRecord) -> dict[str, object]:
    location = f"{record.module}:{record.lineno} {record.funcName}"
    if record.name.partition(".")[0] not in TRUSTED_LOGGERS:
        return {"event": "library", "at": location}
    text = record.getMessage().strip()
    if "\n" not in text:
        return {"event": _to_json_value(text)}
    # A traceback as text (a failed lifespan): its last line, and the source lines in it, may quote anything.
    frames = [f"{PurePath(m['file']).stem}:{m['line']} {m['name']}" for m in _TRACE_LINE.finditer(text)]
    return {"event": _to_json_value(text.partition("\n")[0]), "at": frames[-MAX_FRAMES:] or location}


def _format_frames(trace: TracebackType | None) -> list[str]:
    frames = [(frame, line) for frame, line in walk_tb(trace)][-MAX_FRAMES:]
    return [f"{frame.f_globals.get('__name__', '?')}:{line} {frame.f_code.co_qualname}" for frame, line in frames]


def _format_type_name(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _escape_reserved_name(name: str) -> str:
    return f"field_{name}" if name in RESERVED_FIELDS else name


def _to_json_value(value: Any) -> object:
    """A value that JSON has; of types that nobody thought of, the type's name, for their text may be content."""
    match value:
        case Enum():
            return _to_json_value(value.value)
        case None | bool() | int():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case str():
            text = value.encode("utf-8", "replace").decode()
            return text if len(text) <= MAX_TEXT_CHARACTERS else text[:MAX_TEXT_CHARACTERS] + "…"
        case UUID() | PurePath() | date():
            return str(value)
        case list() | tuple() | set() | frozenset():
            return [_to_json_value(item) for item in value]
        case dict():
            return {str(_to_json_value(key)): _to_json_value(item) for key, item in value.items()}
        case _:
            return f"<{type(value).__name__}>"
