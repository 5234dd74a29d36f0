"""Command line of Carrel: ``carrel serve`` and the other commands."""

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
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Run Carrel, a multi-tenant service for retrieval-augmented generation, and use it from a terminal.

    Each command explains its options: carrel COMMAND --help.

    Example: carrel serve

    Example: carrel upload handbook.pdf

    Example: carrel search "How long is parental leave?"
    """


def main() -> None:
    """Run a command. A wrong setting or a failed start prints one line and ends the command with status 1."""
    try:
        app()
    except (SettingsError, AppError, CarrelError) as exc:
        message = exc.message if isinstance(exc, AppError) else str(exc)
        typer.echo(f"carrel: {message}", err=True)
        sys.exit(1)
