"""Codes of errors and warnings, and log events: stable words without private ones."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.names import FORBIDDEN_WORDS
from tests.architecture.sources import parse, walk

ROOT = Path(__file__).parents[2]
# Rule 6 of the style, and words with a clearer code: invalid_x, duplicate_x, x_exists, x_in_progress.
VAGUE_WORDS = frozenset({"nobody", "whoever", "anew", "stands", "lies", "bad", "twice", "there", "way", "taken"})
LOG_LEVELS = frozenset({"debug", "info", "warning", "error", "exception", "critical"})
CODE_NAME = re.compile(r"(^|_)codes?$", re.IGNORECASE)


def error_codes(tree: ast.AST) -> Iterator[str]:
    """Yield the codes of errors and warnings in a module: in classes, constants, calls and stored JSON."""
    for node in walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if CODE_NAME.search(name):
                yield from strings(value)
            case ast.ClassDef(name="WarningCode", body=body):
                yield from (code for line in body if isinstance(line, ast.Assign) for code in strings(line.value))
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.AST() as value) if CODE_NAME.search(name):
                yield from strings(value)
            case ast.keyword(arg="code", value=ast.Constant(value=str(code))):
                yield code
            case ast.Call(func=ast.Name(id="create_problem_response"), args=[_, _, ast.Constant(value=str(code)), *_]):
                yield code
            case ast.Dict(keys=keys, values=values):
                for key, value in zip(keys, values, strict=True):
                    if isinstance(key, ast.Constant) and key.value == "code":
                        yield from strings(value)


def strings(value: ast.AST) -> Iterator[str]:
    match value:
        case ast.Constant(value=str(text)):
            yield text
        case ast.Dict(values=values):
            for item in values:
                yield from strings(item)
        case ast.Tuple(elts=[code, *_]):  # a code with its meaning
            yield from strings(code)


def log_events(tree: ast.AST) -> Iterator[tuple[str, list[str]]]:
    """Yield the log events of a module, each with the names of its fields."""
    for node in walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr=level), args=[ast.Constant(value=str(event)), *_], keywords=fields):
                if level in LOG_LEVELS:
                    yield event, [field.arg for field in fields if field.arg]


def faults_of_event(event: str, fields: list[str]) -> list[str]:
    """Return the reasons why a log event is refused; none for a good event."""
    words = set(re.split(r"[._]", " ".join([event, *fields]).replace(" ", "_")))
    faults = [] if re.fullmatch(r"[a-z0-9_]+(\.[a-z0-9_]+)?", event) else ["is not subject.change"]
    return faults + [f"holds {word!r}" for word in sorted(words & (FORBIDDEN_WORDS | VAGUE_WORDS))]


def faults_of_code(code: str) -> list[str]:
    """Return the reasons why an error code is refused; none for a good code."""
    words = set(code.split("_"))
    faults = [] if re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", code) else ["is no word in lower case"]
    return faults + [f"holds {word!r}" for word in sorted(words & (FORBIDDEN_WORDS | VAGUE_WORDS))]


@pytest.fixture(scope="module")
def codes() -> dict[str, str]:
    """Every error code of the service, with its module."""
    modules = sorted((ROOT / "app").rglob("*.py"))
    return {code: module.relative_to(ROOT).as_posix() for module in modules for code in error_codes(parse(module))}


def test_error_codes_are_found(codes: dict[str, str]) -> None:
    assert len(codes) > 100
    expected = {"invalid", "method_not_allowed", "no_document_store", "title_changed", "animation_frames_not_read"}
    assert expected <= codes.keys()


def test_error_codes_hold_no_private_words(codes: dict[str, str]) -> None:
    assert {f"{codes[code]}: {code}": faults for code in codes if (faults := faults_of_code(code))} == {}


@pytest.mark.parametrize(
    "code", ["bad_json", "build_under_way", "handed_wall", "file_there", "identity_taken", "Corrupt", "no-text"]
)
def test_error_code_with_a_fault_is_refused(code: str) -> None:
    assert faults_of_code(code)


def test_error_codes_of_every_form_are_read() -> None:
    source = """
class A(AppError):
    code = "a"
class B(AppError):
    code: ClassVar[str] = "b"
error = {"code": "c", "message": "m"}
fail(code="d")
create_problem_response(request, 404, "e", "detail")
HTTP_ERROR_CODES: Mapping[int, str] = {404: "f"}
class WarningCode(StrEnum):
    G = "g", "The meaning of it."
"""
    assert set(error_codes(ast.parse(source))) == set("abcdefg")


@pytest.fixture(scope="module")
def events() -> list[tuple[str, str, list[str]]]:
    """Every log event of the service: its module, its name and its fields."""
    modules = sorted((ROOT / "app").rglob("*.py"))
    return [(module.name, event, fields) for module in modules for event, fields in log_events(parse(module))]


def test_log_events_hold_no_private_words(events: list[tuple[str, str, list[str]]]) -> None:
    assert len(events) > 80
    assert [(*event, faults) for event in events if (faults := faults_of_event(*event[1:]))] == []


@pytest.mark.parametrize(
    ("event", "fields"),
    [("search.lane_failed", []), ("job.failed", ["told"]), ("picture.missing", []), ("The job failed", [])],
)
def test_log_event_with_a_fault_is_refused(event: str, fields: list[str]) -> None:
    assert faults_of_event(event, fields)


def test_log_events_of_every_form_are_read() -> None:
    source = 'logger.info("a.b", c=1)\nself._log.warning("d.e")'
    assert list(log_events(ast.parse(source))) == [("a.b", ["c"]), ("d.e", [])]
