"""The event log: one JSON object a line, with the name of an event and its fields, never content.

The logger of a record decides which text is written. Carrel's modules log events with fields. uvicorn and alembic
write only about the process, so their messages are logged. Messages of other libraries may quote content, so only their
location is logged. An exception is logged with class, code and stack, without its message. The message may quote a
document or the parameters of a statement.
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
# Loggers whose messages are about the process, never about the content of requests or documents.
TRUSTED_LOGGERS = ("uvicorn", "alembic")

_context: ContextVar[Mapping[str, str]] = ContextVar("log_context", default={})  # noqa: B039  # never changed in place
_TRACE_LINE = re.compile(r'^ +File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<name>\S+)', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class EventLogger:
    """Logger of events: ``logger.info("document.ready", chunks=40)``. Fields are numbers, ids and words, never content.

    An exception in the field ``error`` is logged with class, code and stack, and so are its causes.
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
        """Log an error with the exception that is being handled."""
        self._log(logging.ERROR, event, {"error": sys.exception(), **fields})

    def _log(self, level: int, event: str, fields: dict[str, object]) -> None:
        if self.target.isEnabledFor(level):
            error = fields.get("error")
            exc_info = error if isinstance(error, BaseException) else None
            if exc_info is not None:
                del fields["error"]
            self.target.log(level, event, exc_info=exc_info, extra={"event_fields": fields})


def get_logger(name: str) -> EventLogger:
    """Return the logger of a module, by its ``__name__``."""
    return EventLogger(logging.getLogger(name))


@contextmanager
def bind_context(
    *, request_id: str | None = None, tenant_id: UUID | str | None = None, job_id: UUID | str | None = None
) -> Iterator[None]:
    """Add these ids to every line that is logged inside the block, also by its tasks and threads.

    Args:
        request_id: Id of the request.
        tenant_id: Id of the tenant.
        job_id: Id of the job.
    """
    ids = {"request_id": request_id, "tenant_id": tenant_id, "job_id": job_id}
    bound = {name: str(value) for name, value in ids.items() if value is not None}
    token = _context.set({**_context.get(), **bound})
    try:
        yield
    finally:
        _context.reset(token)


def configure_logging(level: LogLevel, stream: TextIO | None = None) -> None:
    """Send the records of all loggers to a stream as JSON. The function may be called again.

    Run uvicorn with ``log_config=None`` and ``access_log=False``; otherwise it replaces the handlers.

    Args:
        level: Minimum level of Carrel's records. Libraries log warnings and errors only.
        stream: The stream; by default standard error.
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
    # Lines of uvicorn's access log have complete URLs with query strings, which may be content. The service has a
    # separate access log.
    logging.getLogger("uvicorn.access").disabled = True


class _JsonHandler(logging.StreamHandler[TextIO]):
    """The only handler of the process. ``configure_logging`` finds it by its class."""

    def handleError(self, record: logging.LogRecord) -> None:
        """Do nothing: the default report would print the message with its arguments."""


class JsonFormatter(logging.Formatter):
    """Formatter of records as one line of JSON: time, level, logger, event, bound ids, fields, error."""

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
        # ASCII contains no line separators of Unicode, and every encoding of a stream accepts it.
        return json.dumps(line, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def describe_error(error: BaseException, *, max_causes: int = MAX_CAUSES) -> dict[str, object]:
    """Return class, code and stack of an exception and its causes, without messages and values.

    Args:
        error: The exception.
        max_causes: Maximum number of nested causes.

    Returns:
        ``type``, ``code`` if there is one, ``at`` (frames, innermost last), ``cause`` and ``errors`` of a group.
    """
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
    # A traceback as text, for example of a failed lifespan. Its last line and its source lines may quote content.
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
    """Convert a value to a type of JSON. For an unknown type, return only the name of the type, because ``str`` of the
    value may be content.
    """
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
