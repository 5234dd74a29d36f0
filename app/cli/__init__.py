"""The command line: ``carrel serve`` and its companions."""

import sys
from typing import Annotated

import typer
from carrel_client import CarrelError

from app import __version__
from app.cli import database, demo, doctor, evaluate, mcp_proxy, models, serve, work
from app.cli.client import documents, jobs, keys, knowledge_bases, search, tenants, transfer, upload
from app.errors import AppError
from app.settings import SettingsError

app = typer.Typer(
    name="carrel",
    help="Retrieval-augmented generation as a service: one desk a tenant.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"carrel {__version__}")
        raise typer.Exit


@app.callback()
def root(
    _version_wanted: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Retrieval-augmented generation as a service: one desk a tenant."""


app.command("serve")(serve.serve)
app.command("worker")(work.worker)
app.command("migrate")(database.migrate)
app.command("demo")(demo.demo)
app.command("doctor")(doctor.doctor)
app.command("evaluate")(evaluate.evaluate)
app.command("upload")(upload.upload)
app.command("search")(search.search)
app.command("export")(transfer.export)
app.command("import")(transfer.import_)
app.add_typer(knowledge_bases.app, name="kb")
app.add_typer(documents.app, name="documents")
app.add_typer(jobs.app, name="jobs")
app.add_typer(keys.app, name="keys")
app.add_typer(tenants.app, name="tenants")
app.command("mcp")(mcp_proxy.mcp)
app.add_typer(models.app, name="models")


def main() -> None:
    """Run a command; what is wrong with the settings or the surroundings is one line and status 1."""
    try:
        app()
    except (SettingsError, AppError, CarrelError) as exc:
        message = exc.message if isinstance(exc, AppError) else str(exc)
        typer.echo(f"carrel: {message}", err=True)
        sys.exit(1)
