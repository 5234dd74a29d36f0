"""``carrel deletions``: receipts of deletions."""

from typing import Annotated

import typer

from app.cli.client.options import AsJson, Key, Url, open_client
from app.cli.client.output import print_item, print_list

app = typer.Typer(help="List and show the receipts of deletions.", no_args_is_help=True)


@app.command("list")
def list_deletions(
    kb: Annotated[
        str | None, typer.Option("--kb", help="Only deletions of this knowledge base, and of documents in it.")
    ] = None,
    unfinished: Annotated[
        bool, typer.Option("--unfinished", help="Only deletions whose contents are still being removed.")
    ] = False,
    as_json: AsJson = False,
    url: Url = None,
    key: Key = None,
) -> None:
    """List the receipts of deletions, newest first.

    Example: carrel deletions list

    Example: carrel deletions list --kb handbook --unfinished
    """
    with open_client(url, key) as client:
        results = list(client.receipts(state="unfinished" if unfinished else None, knowledge_base=kb))
    print_list(results, ["id", "kind", "documents", "chunks", "requested_at", "finished_at"], as_json=as_json)


@app.command()
def show(
    deletion: Annotated[str, typer.Argument(help="ID of the deletion (del_…).")],
    as_json: AsJson = False,
    url: Url = None,
    key: Key = None,
) -> None:
    """Show the receipt of one deletion, with the rows and objects that remain.

    Example: carrel deletions show del_…
    """
    with open_client(url, key) as client:
        result = client.receipt(deletion)
    print_item(result, as_json=as_json)
