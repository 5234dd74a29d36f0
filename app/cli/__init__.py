"""The command line: ``carrel serve`` and its companions."""

import sys
from typing import Annotated

import typer
from carrel_client import CarrelError

from app.cli.commands import LazyCommandGroup
from app.errors import AppError
from app.settings import SettingsError
from carrel import __version__

app = typer.Typer(
    cls=LazyCommandGroup,
    name="carrel",
    help="Retrieval-augmented generation as a service for many tenants.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"carrel {__version__}")
        raise typer.Exit


@app.callback()
def root(
    _show_version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Retrieval-augmented generation as a service for many tenants."""


def main() -> None:
    """Run a command; what is wrong with the settings or the surroundings is one line and status 1."""
    try:
        app()
    except (SettingsError, AppError, CarrelError) as exc:
        message = exc.message if isinstance(exc, AppError) else str(exc)
        typer.echo(f"carrel: {message}", err=True)
        sys.exit(1)
