"""The page of tables and functions of the database, from ``app/db/models`` and ``app/db/sql``."""

import inspect
import itertools
import pkgutil
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from sqlalchemy import CheckConstraint, Table, UniqueConstraint
from sqlalchemy.dialects import postgresql

import app.db.models
from app.db.models.base import Base
from scripts.docs.markdown import GENERATED, format_table, format_text

FUNCTIONS = Path(__file__).parents[2] / "app/db/sql/functions"
_INTRODUCTION = """# SQL schema

The tables and functions of Carrel's database. They are not a public interface, and any version may change them.
Programs that read chunks by SQL use [SQL views](../how-to/read-with-sql.md).

Row-level security is enabled and forced on every table with a column `tenant_id`: a session sees the rows of its tenant
only ([security](../explanation/security.md)).
"""
_DIALECT = postgresql.dialect()  # type: ignore[no-untyped-call]


def build_page() -> str:
    """Return the page of all tables and functions."""
    for module in pkgutil.iter_modules(app.db.models.__path__, "app.db.models."):
        import_module(module.name)
    groups: dict[str, list[tuple[int, Table, str]]] = defaultdict(list)
    for mapper in Base.registry.mappers:
        model = mapper.class_
        table = model.__table__
        groups[model.__module__].append((inspect.getsourcelines(model)[1], table, _format_docstring(model)))
    for name in [name for name in sys.modules if name.startswith("app.db.models.")]:
        groups[name] += _find_unmapped_tables(name)
    lines = [GENERATED, "", _INTRODUCTION]
    for module_name in sorted(name for name, tables in groups.items() if tables):
        title = module_name.rpartition(".")[2].replace("_", " ").capitalize().replace("Sql", "SQL")
        lines += [f"## {title}", "", _format_docstring(sys.modules[module_name]), ""]
        for _, table, description in sorted(groups[module_name], key=lambda entry: entry[0]):
            lines += _format_table(table, description)
    return "\n".join([*lines, *_format_functions()]).rstrip() + "\n"


def _find_unmapped_tables(module_name: str) -> Iterator[tuple[int, Table, str]]:
    """Yield the tables that have no class: line, table and the comment above it."""
    module = sys.modules[module_name]
    lines = inspect.getsource(module).splitlines()
    for number, line in enumerate(lines):
        if match := re.match(r"(\w+) = Table\(", line):
            comment = itertools.takewhile(lambda text: text.startswith("#"), reversed(lines[:number]))
            text = " ".join(text.lstrip("# ") for text in reversed(list(comment)))
            yield number, getattr(module, match[1]), format_text(text)


def _format_docstring(owner: Any) -> str:
    text = inspect.cleandoc(owner.__doc__ or "")
    return "\n\n".join(format_text(" ".join(part.split())) for part in text.split("\n\n"))


def _format_table(table: Table, description: str) -> Iterator[str]:
    yield from (f"### `{table.name}`", "", description, "")
    yield from format_table(
        ("column", "type", "null", "default"),
        (
            (
                f"`{column.name}`",
                column.type.compile(dialect=_DIALECT).lower(),
                "yes" if column.nullable else "no",
                f"`{getattr(column.server_default, 'arg', '')}`" if column.server_default is not None else "",
            )
            for column in table.columns
        ),
    )
    if table.primary_key.columns:
        yield f"- Primary key: {_join(table.primary_key.columns.keys())}"
    for constraint in sorted(table.constraints, key=lambda constraint: str(constraint.name)):
        if isinstance(constraint, UniqueConstraint):
            yield f"- Unique: {_join(constraint.columns.keys())}"
        elif isinstance(constraint, CheckConstraint):
            yield f"- Check: `{' '.join(str(constraint.sqltext).split())}`"
    for key in sorted(table.foreign_key_constraints, key=lambda key: list(key.column_keys)):
        yield f"- Reference: {_join(key.column_keys)} to `{key.referred_table.name}`"
    for index in sorted(table.indexes, key=lambda index: str(index.name)):
        condition = index.dialect_options["postgresql"]["where"]
        yield f"- Index: `{index.name}`" + (f" where `{condition}`" if condition is not None else "")
    yield ""


def _join(names: Any) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _format_functions() -> Iterator[str]:
    yield from ("## Functions", "", "A function runs with the rights of its owner if its row says so.", "")
    for folder in sorted(path for path in FUNCTIONS.iterdir() if path.is_dir()):
        owner = "the owner of the tables" if folder.name == "owner" else f"`{folder.name}`"
        yield from (f"### Functions of {owner}", "")
        yield from format_table(
            ("function", "rights", "meaning"),
            (
                (
                    f"`{path.stem}`",
                    "owner" if "security definer" in path.read_text("utf-8").lower() else "caller",
                    format_text(_read_first_sentence(path.read_text("utf-8"))),
                )
                for path in sorted(folder.glob("*.sql"))
            ),
        )


def _read_first_sentence(text: str) -> str:
    """Return the first sentence of the comment that begins a file."""
    comment = []
    for line in text.splitlines():
        if not line.startswith("--"):
            break
        comment.append(line.removeprefix("--").strip())
    sentence, dot, _ = " ".join(comment).partition(". ")
    return sentence + dot.strip()
