"""The commands by name. Only the one that is asked for is imported: all of the service takes seconds."""

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

# Where each is, and the first line of its help.
COMMANDS = {
    "serve": (
        "app.cli.serve:serve",
        "Serve the API and run a worker; without CARREL_DATABASE_URL, also an embedded Postgres.",
    ),
    "worker": (
        "app.cli.worker:worker",
        "Run jobs of the queue; any number of workers may run, on any number of machines.",
    ),
    "migrate": (
        "app.cli.database:migrate",
        "Migrate the database's schema to this version; safe to repeat, also while old replicas run.",
    ),
    "demo": ("app.cli.demo:demo", "Start the service, upload two sample documents and ask three questions."),
    "doctor": (
        "app.cli.doctor:doctor",
        "Check database, tenant isolation, workers, waiting jobs, object store, models, parser confinement and disk.",
    ),
    "evaluate": (
        "app.cli.evaluate:evaluate",
        "Measure what search finds on queries whose answers are known, over the HTTP API of a running service.",
    ),
    "upload": (
        "app.cli.client.upload:upload",
        "Upload files and whole directories; stored documents are not sent again.",
    ),
    "search": ("app.cli.client.search:search", "Search, best passages first."),
    "export": (
        "app.cli.client.transfer:export",
        "Write a knowledge base into one archive: originals, parsed texts, chunks, vectors, settings and hashes.",
    ),
    "import": (
        "app.cli.client.transfer:import_",
        "Take the documents of an archive into a knowledge base; nothing is parsed or embedded again.",
    ),
    "mcp": (
        "app.cli.mcp_proxy:mcp",
        "Serve the tools of a running service to a desktop agent, over standard input and output (MCP).",
    ),
    "kb": ("app.cli.client.knowledge_bases:app", "Knowledge bases."),
    "documents": ("app.cli.client.documents:app", "Documents of a knowledge base."),
    "jobs": ("app.cli.client.jobs:app", "Ingestion jobs: running, waiting and failed ones."),
    "keys": ("app.cli.client.keys:app", "Keys of the tenant; needs an admin's."),
    "tenants": ("app.cli.client.tenants:app", "Tenants; needs the operator's key."),
    "models": ("app.cli.models:app", "Manage the weights of the embedded embedding model."),
}


class LazyCommandGroup(TyperGroup):
    """Lists them by their summaries, and imports the one that runs."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = {name: TyperCommand(name, help=summary) for name, (_, summary) in COMMANDS.items()}

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Replace the summary by the command itself. Raises UsageError for an unknown command."""
        name, _, remaining = super().resolve_command(ctx, args)
        return name, None if name is None else load_command(name), remaining


def load_command(name: str) -> Any:
    """Import the command of this name, or the group of commands."""
    module, _, attribute = COMMANDS[name][0].partition(":")
    target = getattr(import_module(module), attribute)
    if isinstance(target, typer.Typer):
        return get_group(target)
    single = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    single.command(name)(target)
    return get_command(single)
