"""Names and summaries of the commands. A command's module is imported when it runs: the whole service takes seconds."""

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

# Location of each command, and the summary that is the first line of its help.
COMMANDS = {
    "serve": (
        "app.cli.serve:serve",
        "Run the service: the API, a worker and, unless CARREL_DATABASE_URL is set, an embedded Postgres.",
    ),
    "worker": (
        "app.cli.worker:worker",
        "Run a worker, which processes the jobs of the queue: ingestion, deletion, maintenance and webhooks.",
    ),
    "migrate": (
        "app.cli.database:migrate",
        "Migrate the schema of the database to this version of Carrel.",
    ),
    "demo": ("app.cli.demo:demo", "Start the service, upload two sample documents and ask three questions."),
    "doctor": (
        "app.cli.doctor:doctor",
        "Check database, tenant isolation, workers, waiting jobs, object store, models, parser confinement and disk.",
    ),
    "evaluate": (
        "app.cli.evaluate:evaluate",
        "Measure the quality of searches of a running service with queries whose answers are known.",
    ),
    "upload": (
        "app.cli.client.upload:upload",
        "Upload files and directories to a knowledge base; unchanged files are not sent again.",
    ),
    "search": ("app.cli.client.search:search", "Search knowledge bases and print the best passages."),
    "apply": (
        "app.cli.client.apply:apply",
        "Create and change knowledge bases and agents as a configuration file describes them.",
    ),
    "export": (
        "app.cli.client.transfer:export",
        "Export a knowledge base to one archive file, or all settings to a configuration file.",
    ),
    "import": (
        "app.cli.client.transfer:import_",
        "Import the documents of an archive into a knowledge base, without parsing or embedding them again.",
    ),
    "mcp": (
        "app.cli.mcp_proxy:mcp",
        "Connect a desktop agent to a running service over standard input and output (MCP).",
    ),
    "kb": ("app.cli.client.knowledge_bases:app", "List, create, change, reindex and delete knowledge bases."),
    "documents": ("app.cli.client.documents:app", "List, show, download, reindex and delete documents."),
    "jobs": (
        "app.cli.client.jobs:app",
        "List documents in ingestion and jobs of the queue, and retry failed ones.",
    ),
    "keys": ("app.cli.client.keys:app", "List, create, rotate and revoke the API keys of a tenant."),
    "deletions": ("app.cli.client.deletions:app", "List and show the receipts of deletions."),
    "tenants": ("app.cli.client.tenants:app", "List, create, change and delete tenants, with the operator key."),
    "models": ("app.cli.models:app", "List, download and check the local embedding models."),
}


class LazyCommandGroup(TyperGroup):
    """Group of all commands. It lists them by their summaries, and imports only the command that runs."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = {name: TyperCommand(name, help=summary) for name, (_, summary) in COMMANDS.items()}

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return the command itself instead of its summary. Raises UsageError for an unknown command."""
        name, _, remaining = super().resolve_command(ctx, args)
        return name, None if name is None else load_command(name), remaining


def load_command(name: str) -> Any:
    """Import the command or the group of commands of this name, and return it."""
    module, _, attribute = COMMANDS[name][0].partition(":")
    target = getattr(import_module(module), attribute)
    if isinstance(target, typer.Typer):
        return get_group(target)
    single = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    single.command(name)(target)
    return get_command(single)
