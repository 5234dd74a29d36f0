"""Output of the commands: tables for terminals, JSON for programs."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import typer
import yaml
from rich.console import Console
from rich.markup import escape
from rich.table import Table


def print_json(value: Any) -> None:
    """Print a value as indented JSON."""
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2))


def print_yaml(block: Mapping[str, Any]) -> None:
    """Print a block for a configuration file as YAML. Fields that are None are left out."""
    fields = {name: value for name, value in block.items() if value is not None}
    typer.echo(yaml.safe_dump(fields, sort_keys=False, allow_unicode=True), nl=False)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a table with one row per line if it fits the terminal; None becomes an empty cell."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, column in enumerate(columns):
        table.add_column(column, overflow="fold", no_wrap=number == 0)
    for row in rows:
        table.add_row(*("" if cell is None else _escape_text(str(cell)) for cell in row))
    Console(highlight=False).print(table)


def print_fields(fields: Mapping[str, Any]) -> None:
    """Print one field per line, nested values as JSON."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in fields.items():
        shown = json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value
        table.add_row(name, "" if value is None else _escape_text(str(shown)))
    Console(highlight=False).print(table)


def print_list(items: Sequence[Mapping[str, Any]], columns: Sequence[str], *, as_json: bool) -> None:
    """Print a table of items with the given columns, or the complete items as JSON."""
    if as_json:
        print_json(list(items))
    else:
        print_table(columns, [[item.get(column) for column in columns] for item in items])


def print_item(item: Mapping[str, Any], *, as_json: bool) -> None:
    """Print all fields of one item, or the item as JSON."""
    if as_json:
        print_json(item)
    else:
        print_fields(item)


def _escape_text(text: str) -> str:
    """Escape control characters, so that a document's text cannot control the terminal or break the table."""
    return escape("".join(character if character.isprintable() or character == "\n" else " " for character in text))
