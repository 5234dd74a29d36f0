"""Options that these commands share."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from carrel_client import ApiError, CarrelError, Client

from app.cli.endpoint import connect, parse_json
from app.errors import AppError, InvalidInputError

Url = Annotated[str | None, typer.Option(help="The service; else CARREL_URL, else what serve left.")]
Key = Annotated[str | None, typer.Option(help="Its key; else CARREL_API_KEY, else what serve left.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Kb = Annotated[str, typer.Option("--kb", help="The knowledge base, by its name or id.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
# What a command ends with: the service said no, or something else was wrong.
REFUSED_STATUS, ERROR_STATUS = 1, 2


class InvalidJson(InvalidInputError):
    """An option takes a JSON object."""

    code = "invalid_json"


@contextmanager
def open_client(url: str | None, key: str | None) -> Iterator[Client]:
    """Open a client. An error inside prints one line and ends the command: status 1 for a refusal, else 2."""
    try:
        with connect(url, key) as client:
            yield client
    except ApiError as exc:
        typer.echo(f"carrel: {exc}", err=True)
        raise typer.Exit(REFUSED_STATUS) from exc
    except (AppError, CarrelError, OSError) as exc:
        typer.echo(f"carrel: {exc.message if isinstance(exc, AppError) else exc}", err=True)
        raise typer.Exit(ERROR_STATUS) from exc


def parse_json_object(option: str, text: str | None) -> dict[str, Any]:
    """The object that an option holds, nothing where it is not given. Raises InvalidJson."""
    try:
        value = parse_json(text) if text is not None else {}
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise InvalidJson(f"{option} takes a JSON object, such as '{{\"year\": 2026}}'")
    return value


def drop_unset(**options: Any) -> Mapping[str, Any]:
    """Return the options that are not None."""
    return {name: value for name, value in options.items() if value is not None}


def confirm(question: str, yes: bool) -> None:
    """Ask for confirmation in a terminal; elsewhere require ``--yes``. Raises typer.Abort."""
    if not yes:
        typer.confirm(question, abort=True)
