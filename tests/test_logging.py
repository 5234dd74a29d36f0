"""The event log: one JSON line for each event, ids bound by context, and no content."""

import asyncio
import io
import json
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

import pytest
from pydantic import SecretStr

from app.errors import UnavailableError
from app.logging import bind_context, configure_logging, get_logger

SECRET = "the patient's own words"
LOGGERS = ["", "app", "uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi", "alembic"]

log = get_logger("app.somewhere")


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """Configured logging; the process's loggers are restored afterwards."""
    loggers = [logging.getLogger(name) for name in LOGGERS]
    before = [(one, one.level, one.propagate, one.disabled, list(one.handlers)) for one in loggers]
    out, others = io.StringIO(), {one.ident for one in threading.enumerate()} - {threading.get_ident()}
    configure_logging("info", out)
    # Services of other tests run in threads of this process, and log too.
    own = log.target.name
    logging.getLogger().handlers[-1].addFilter(lambda record: record.name == own or record.thread not in others)
    yield out
    for one, level, propagate, disabled, handlers in before:
        one.setLevel(level)
        one.propagate, one.disabled, one.handlers[:] = propagate, disabled, handlers


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def line(stream: io.StringIO) -> dict[str, Any]:
    (only,) = lines(stream)
    return only


def test_log_event_is_one_line_of_json(stream: io.StringIO) -> None:
    log.info("document.ready", chunks=40, title_language="fr")
    found = line(stream)
    assert datetime.fromisoformat(found.pop("time")).tzinfo == UTC
    assert found == {
        "level": "info",
        "logger": "app.somewhere",
        "event": "document.ready",
        "chunks": 40,
        "title_language": "fr",
    }


def test_log_field_with_line_break_stays_in_its_line(stream: io.StringIO) -> None:
    log.info("odd", name='a\n{"level":"error"}\u2028\udc80')
    assert len(stream.getvalue().strip("\n").split("\n")) == 1
    assert line(stream)["name"].startswith('a\n{"level":"error"}')


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (None, None),
        (True, True),
        (1.5, 1.5),
        (float("nan"), "nan"),
        (float("inf"), "inf"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (PurePosixPath("a/b"), "a/b"),
        (datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02 00:00:00+00:00"),
        ((1, {"a": b"x"}), [1, {"a": "<bytes>"}]),
        (SecretStr(SECRET), "<SecretStr>"),
        (b"bytes", "<bytes>"),
        (ValueError(SECRET), "<ValueError>"),
        ("x" * 600, "x" * 500 + "…"),
    ],
)
def test_log_field_values_are_converted(stream: io.StringIO, value: object, told: object) -> None:
    log.info("event", value=value)
    assert line(stream)["value"] == told


def test_log_field_never_overrides_reserved_fields(stream: io.StringIO) -> None:
    with bind_context(tenant_id="t1"):
        log.info("event", level="debug", tenant_id="t2", time=1)
    found = line(stream)
    assert (found["level"], found["tenant_id"]) == ("info", "t1")
    assert (found["field_level"], found["field_tenant_id"], found["field_time"]) == ("debug", "t2", 1)


def test_log_level_filters_events(stream: io.StringIO) -> None:
    log.debug("no")
    log.info("yes")
    log.warning("yes")
    log.error("yes")
    assert [(found["event"], found["level"]) for found in lines(stream)] == [
        ("yes", "info"),
        ("yes", "warning"),
        ("yes", "error"),
    ]
    configure_logging("debug", stream)
    log.debug("now")
    assert lines(stream)[-1]["level"] == "debug"
    configure_logging("error", stream)
    log.warning("no more")
    assert lines(stream)[-1]["event"] == "now"


def test_configure_logging_again_does_not_double_lines(stream: io.StringIO) -> None:
    configure_logging("info", stream)
    configure_logging("info", stream)
    log.info("once")
    assert line(stream)["event"] == "once"


def test_bind_context_applies_inside_block_only(stream: io.StringIO) -> None:
    with bind_context(request_id="r1"):
        with bind_context(tenant_id=UUID(int=2), job_id="j1"):
            log.info("inner")
        log.info("outer")
    log.info("outside")
    inner, outer, outside = lines(stream)
    assert (inner["request_id"], inner["tenant_id"], inner["job_id"]) == ("r1", str(UUID(int=2)), "j1")
    assert outer["request_id"] == "r1"
    assert "tenant_id" not in outer
    assert "request_id" not in outside


async def test_bind_context_of_concurrent_tasks_is_separate(stream: io.StringIO) -> None:
    async def work(name: str) -> None:
        with bind_context(tenant_id=name):
            for _ in range(5):
                await asyncio.sleep(0)
                log.info("step", expected=name)
                await asyncio.to_thread(log.info, "in a thread", expected=name)

    await asyncio.gather(*(work(f"t{n}") for n in range(5)))
    found = lines(stream)
    assert len(found) == 50
    assert all(one["tenant_id"] == one["expected"] for one in found)


def test_log_lines_of_concurrent_threads_are_complete(stream: io.StringIO) -> None:
    def work() -> None:
        for n in range(50):
            log.info("event", n=n)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(lines(stream)) == 200


def fail(text: str) -> None:
    try:
        int(text)
    except ValueError as exc:
        raise UnavailableError(text, snippet=text) from exc


def test_log_exception_has_no_message(stream: io.StringIO) -> None:
    try:
        fail(SECRET)
    except UnavailableError as exc:
        log.error("job.failed", error=exc, attempt=2)
    assert SECRET not in stream.getvalue()
    found = line(stream)
    error = found["error"]
    assert (found["level"], found["attempt"]) == ("error", 2)
    assert (error["type"], error["code"]) == ("app.errors.UnavailableError", "unavailable")
    assert [place.rpartition(" ")[2] for place in error["at"]][-1] == "fail"
    assert all(":" in place and "/" not in place for place in error["at"])
    assert error["cause"]["type"] == "ValueError"


def test_log_exception_groups_and_long_chains_are_limited(stream: io.StringIO) -> None:
    chained: Exception = ValueError(SECRET)
    for _ in range(30):
        following = KeyError(SECRET)
        following.__cause__ = chained
        chained = following
    log.error("failed", error=ExceptionGroup(SECRET, [chained, TypeError(SECRET)]))
    assert SECRET not in stream.getvalue()
    error = line(stream)["error"]
    assert [part["type"] for part in error["errors"]] == ["KeyError", "TypeError"]
    assert stream.getvalue().count("KeyError") <= 6


def test_log_recursion_error_has_limited_length(stream: io.StringIO) -> None:
    def deeper() -> None:
        deeper()

    try:
        deeper()
    except RecursionError:
        log.exception("failed")
    assert len(line(stream)["error"]["at"]) == 25


def test_log_of_other_libraries_has_place_and_no_message(stream: io.StringIO) -> None:
    library = logging.getLogger("some.library")
    library.info("below the library level")
    library.warning(f"could not read {SECRET}")
    library.warning("could not read %s", SECRET)
    try:
        fail(SECRET)
    except UnavailableError:
        library.exception(SECRET)
    assert SECRET not in stream.getvalue()
    found = lines(stream)
    assert [one["event"] for one in found] == ["library"] * 3
    assert all("test_logging" in one["at"] for one in found)
    assert found[2]["error"]["type"] == "app.errors.UnavailableError"


def test_log_of_alembic_has_its_sentences(stream: io.StringIO) -> None:
    logging.getLogger("alembic.runtime.migration").info("Running upgrade %s -> %s", "a1", "b2")
    assert line(stream)["event"] == "Running upgrade a1 -> b2"


SERVICE = """
import sys
import uvicorn
from app.logging import configure_logging

async def app(scope, receive, send):
    if scope["type"] == "lifespan" and sys.argv[1] == "fails":
        raise ValueError(sys.argv[2])
    await receive()
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await send({"type": "lifespan.shutdown.complete"})

configure_logging("info")
server = uvicorn.Server(uvicorn.Config(app, port=0, lifespan="on", log_config=None, access_log=False))
server.should_exit = True
server.run()
"""


@pytest.mark.parametrize(("how", "code"), [("works", 0), ("fails", 3)])
def test_log_of_uvicorn_uses_same_format(how: str, code: int) -> None:
    done = subprocess.run([sys.executable, "-c", SERVICE, how, SECRET], capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert SECRET not in done.stderr
    found = [json.loads(one) for one in done.stderr.splitlines()]
    assert {one["logger"] for one in found} == {"uvicorn.error"}
    if how == "works":
        assert any(one["event"].startswith("Uvicorn running on") for one in found)
    else:
        assert any(one.get("error", {}).get("type") == "ValueError" for one in found)


def test_log_traceback_of_uvicorn_has_no_source_lines(stream: io.StringIO) -> None:
    frame = '  File "/srv/x/app.py", line 3, in start'
    text = f"Traceback (most recent call last):\n{frame}\n    {SECRET}\nValueError: {SECRET}"
    logging.getLogger("uvicorn.error").error(text)
    assert SECRET not in stream.getvalue()
    assert line(stream)["at"] == ["app:3 start"]


def test_log_access_log_of_uvicorn_is_off(stream: io.StringIO) -> None:
    logging.getLogger("uvicorn.access").info('%s - "GET /?q=%s"', "127.0.0.1", SECRET)
    assert stream.getvalue() == ""


GONE = """
import io, logging, sys
from app.logging import configure_logging, get_logger
gone = io.StringIO()
configure_logging("info", gone)
gone.close()
get_logger("app.x").info("event", value=sys.argv[1])
logging.getLogger("some.library").warning("%d", sys.argv[1])
"""


def test_log_to_closed_stream_stops_no_request() -> None:
    done = subprocess.run([sys.executable, "-c", GONE, SECRET], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
