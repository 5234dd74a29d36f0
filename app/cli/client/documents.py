"""``carrel documents``: documents of a knowledge base."""

from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from app.cli.client.options import AsJson, Kb, Key, Url, Yes, confirm, drop_unset, open_client, parse_json_object
from app.cli.client.output import print_item, print_list

app = typer.Typer(help="List, show, download, reindex and delete documents.", no_args_is_help=True)
Id = Annotated[str, typer.Argument(help="ID of the document (doc_…).")]
COLUMNS = ["id", "source", "external_id", "status", "chunk_count", "bytes", "updated_at"]


@app.command("list")
def list_documents(
    kb: Kb = "default",
    status: Annotated[
        str | None,
        typer.Option(help="Only documents with this status: queued, parsing, chunking, embedding, ready or failed."),
    ] = None,
    filter: Annotated[str | None, typer.Option(help="Metadata filter as JSON.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Maximum number of documents.")] = 50,
    as_json: AsJson = False,
    url: Url = None,
    key: Key = None,
) -> None:
    """List the documents of a knowledge base, newest first.

    Example: carrel documents list --kb handbook --status failed

    Example: carrel documents list --filter '{"year": {"gte": 2025}}' --limit 10
    """
    with open_client(url, key) as client:
        parsed = parse_json_object("--filter", filter) if filter is not None else None
        filters: Any = drop_unset(status=status, filter=parsed)
        documents = list(islice(client.documents.list(kb, **filters), limit))
    print_list(documents, COLUMNS, as_json=as_json)


@app.command()
def show(document: Id, kb: Kb = "default", as_json: AsJson = False, url: Url = None, key: Key = None) -> None:
    """Show one document with its status and, if it failed, the reason.

    Example: carrel documents show doc_… --kb handbook
    """
    with open_client(url, key) as client:
        result = client.documents.get(kb, document)
    print_item(result, as_json=as_json)


@app.command()
def chunks(document: Id, kb: Kb = "default", as_json: AsJson = False, url: Url = None, key: Key = None) -> None:
    """Show the chunks of one document in their order.

    Example: carrel documents chunks doc_… --kb handbook
    """
    with open_client(url, key) as client:
        results = list(client.documents.chunks(kb, document))
    print_list(results, ["chunk_index", "page", "text"], as_json=as_json)


@app.command()
def download(
    document: Id,
    to: Annotated[Path, typer.Argument(help="Path of the file to write.")],
    kb: Kb = "default",
    as_json: AsJson = False,
    url: Url = None,
    key: Key = None,
) -> None:
    """Download the original file of a document.

    Example: carrel documents download doc_… handbook.pdf --kb handbook
    """
    with open_client(url, key) as client:
        byte_count = client.documents.download(kb, document, to)
    print_item({"file": str(to), "bytes": byte_count}, as_json=as_json)


@app.command()
def delete(
    document: Id, kb: Kb = "default", yes: Yes = False, as_json: AsJson = False, url: Url = None, key: Key = None
) -> None:
    """Delete a document. It disappears from searches immediately, and a receipt proves the deletion.

    Example: carrel documents delete doc_… --kb handbook --yes
    """
    confirm(f"Delete the document {document}?", yes)
    with open_client(url, key) as client:
        deletion = client.documents.delete(kb, document)
    print_item({"deletion": deletion}, as_json=as_json)


@app.command()
def reindex(document: Id, kb: Kb = "default", as_json: AsJson = False, url: Url = None, key: Key = None) -> None:
    """Ingest a document again, for example after a failure.

    Example: carrel documents reindex doc_… --kb handbook
    """
    with open_client(url, key) as client:
        result = client.documents.reindex(kb, document)
    print_item(result, as_json=as_json)
