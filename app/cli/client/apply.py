"""``carrel apply``: knowledge bases and agents from a configuration file."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from app.cli.client.configuration_changes import ResourceChange, apply_change, plan_changes
from app.cli.client.configuration_file import load_configuration
from app.cli.client.options import REFUSED_STATUS, AsJson, Key, Url, Yes, confirm, open_client
from app.cli.client.output import print_json
from app.errors import InvalidInputError

_KIND_NAMES = {"knowledge_base": "knowledge base", "agent": "agent"}
MAX_SHOWN_CHARACTERS = 200


class ChangesNotConfirmed(InvalidInputError):
    """Changes in JSON need --yes or --check, because a program cannot confirm them."""

    code = "changes_not_confirmed"


def apply(
    file: Annotated[Path, typer.Argument(help="Configuration file (YAML).")],
    check: Annotated[
        bool, typer.Option("--check", help="Only compare. The exit status is 1 if the service differs.")
    ] = False,
    yes: Yes = False,
    as_json: AsJson = False,
    url: Url = None,
    key: Key = None,
) -> None:
    """Create and change knowledge bases and agents as a configuration file describes them.

    The command shows all differences and asks before it changes anything. Fields, knowledge bases and agents that the
    file leaves out stay as they are; nothing is deleted. The same file again changes nothing. The API key must have
    the role admin.

    Example: carrel apply carrel.yaml

    Example: carrel apply carrel.yaml --check
    """
    with open_client(url, key) as client:
        changes = plan_changes(client, load_configuration(file))
        if not as_json:
            typer.echo(describe_changes(changes))
        elif changes and not (yes or check):
            raise ChangesNotConfirmed("Add --yes to apply the changes, or --check to compare only.")
        if check or not changes:
            _print_result(changes, 0, as_json=as_json)
            raise typer.Exit(REFUSED_STATUS if changes else 0)
        confirm("Apply these changes?", yes)
        for number, change in enumerate(changes, 1):
            apply_change(client, change)
            if not as_json:
                typer.echo(f"{number}/{len(changes)} {_KIND_NAMES[change.kind]} {change.name}: done")
        _print_result(changes, len(changes), as_json=as_json)


def describe_changes(changes: Sequence[ResourceChange]) -> str:
    """Return the changes as lines for people: each resource, and below it the old and the new values."""
    if not changes:
        return "No changes: the service agrees with the file."
    lines: list[str] = []
    for change in changes:
        sign = "+" if change.action == "create" else "~"
        lines.append(f"{sign} {_KIND_NAMES[change.kind]} {change.name}{' (reindex)' if change.reindex else ''}")
        for item in change.fields:
            new = _show_value(item.new)
            lines.append(f"    {item.path}: " + (new if sign == "+" else f"{_show_value(item.old)} -> {new}"))
    created = sum(change.action == "create" for change in changes)
    return "\n".join([*lines, f"{created} to create, {len(changes) - created} to change."])


def _show_value(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_SHOWN_CHARACTERS else f"{text[:MAX_SHOWN_CHARACTERS]}…"


def _print_result(changes: Sequence[ResourceChange], applied: int, *, as_json: bool) -> None:
    if as_json:
        print_json({"changes": [asdict(change) for change in changes], "applied": applied})
