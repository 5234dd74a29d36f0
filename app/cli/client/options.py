"""Options and helpers that the client commands share."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from carrel_client import ApiError, CarrelError, Client

from app.cli.endpoint import connect, parse_json
from app.errors import AppError, InvalidInputError

Url = Annotated[
    str | None,
    typer.Option(help="URL of the service. Default: CARREL_URL, else the service that runs on the data directory."),
]
Key = Annotated[str | None, typer.Option(help="API key. Default: CARREL_API_KEY, else the key in the data directory.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
AsYaml = Annotated[bool, typer.Option("--yaml", help="Print the block for a platform's configuration as YAML.")]
Kb = Annotated[str, typer.Option("--kb", help="Name or ID of the knowledge base.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
# Exit status of a command: the service refused the request, or the command could not send it.
REFUSED_STATUS, ERROR_STATUS = 1, 2


class InvalidJson(InvalidInputError):
    """The value of an option is not a JSON object."""

    code = "invalid_json"


@contextmanager
def open_client(url: str | None, key: str | None) -> Iterator[Client]:
    """Open a client of the service. An error in the block prints one line and ends the command.

    Args:
        url: Value of ``--url``, or None.
        key: Value of ``--key``, or None.

    The exit status is 1 if the service refuses a request, and 2 for every other error.

    Yields:
        The client, which is closed after the block.
    """
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
    """Return the JSON object in the value of an option; an empty object for None. Raises InvalidJson."""
    try:
        value = parse_json(text) if text is not None else {}
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise InvalidJson(f"{option} takes a JSON object, such as '{{\"year\": 2026}}'")
    return value


def drop_unset(**options: Any) -> Mapping[str, Any]:
    """Return the options whose value is not None."""
    return {name: value for name, value in options.items() if value is not None}


def confirm(question: str, yes: bool) -> None:
    """Request confirmation unless ``--yes`` is given. Raises typer.Abort if the answer is no."""
    if not yes:
        typer.confirm(question, abort=True)
