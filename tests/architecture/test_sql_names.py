"""Names in the SQL of functions, triggers and the baseline: the rules of names.py, and words of former names."""

import re
from collections.abc import Iterator, Mapping

import pytest

from app.db.sql_files import SQL_DIRECTORY, find_migrations_directory
from tests.architecture.names import faults_of

# Words of former names of tables, columns and functions that have another term today.
FORMER_WORDS = frozenset(
    {"beat", "folded", "lex", "openai", "pace", "passages", "rests", "resting", "stamp", "stamped", "undo", "unsettled"}
)
# A function and a variable of Postgres.
BUILT_IN = frozenset({"least", "found"})
# Comments and literals are no code, except for literals that are executed.
_LITERAL_OR_COMMENT = re.compile(r"('(?:[^']|'')*')|--[^\n]*")
_RUN = re.compile(r"'\s*(select|insert|update|delete|create|alter|grant|revoke|and|or|\))\b")


def sql_files() -> Mapping[str, str]:
    """Return the text of every SQL file, by its path."""
    paths = [*SQL_DIRECTORY.rglob("*.sql"), *find_migrations_directory().rglob("*.sql")]
    return {str(path): path.read_text() for path in paths}


def names_in(sql: str) -> Iterator[str]:
    """Yield the words of SQL code that can be names."""
    code = _LITERAL_OR_COMMENT.sub(lambda part: part[1] if part[1] and _RUN.match(part[1]) else " ", sql)
    for name in re.findall(r"[a-z_][a-z0-9_]*", code.lower()):
        yield name.removeprefix("p_")


def faults_in(sql: str) -> dict[str, list[str]]:
    """Return the names that break a rule, with the reasons."""
    found = {}
    for name in set(names_in(sql)) - BUILT_IN:
        former = [f"holds {word!r}" for word in name.split("_") if word in FORMER_WORDS]
        if faults := faults_of(name) + former:
            found[name] = faults
    return found


def test_sql_names_hold_no_private_words() -> None:
    faults = {path: faults_in(text) for path, text in sql_files().items()}
    assert len(faults) > 90
    assert {path: names for path, names in faults.items() if names} == {}


@pytest.mark.parametrize(
    ("sql", "name"),
    [
        ("create table job_lane (id int)", "job_lane"),
        ("alter table worker add beat_at timestamptz", "beat_at"),
        ("create function tell_webhooks() returns void", "tell_webhooks"),
        ("create function f(p_most int) returns int", "most"),
        ("return query execute 'select x from lex_totals'", "lex_totals"),
    ],
)
def test_former_sql_name_is_detected(sql: str, name: str) -> None:
    assert set(faults_in(sql)) == {name}


def test_sql_comments_and_messages_are_not_names() -> None:
    assert faults_in("-- Tell it.\nraise exception 'Ingestion was given up.'; select least(1, 2)") == {}
