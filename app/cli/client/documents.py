"""``carrel documents``: the documents of a knowledge base."""

from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from app.cli.client.options import AsJson, Kb, Key, Url, Yes, confirm, drop_unset, open_client, parse_json_object
from app.cli.client.output import print_item, print_list

app = typer.Typer(help="Documents of a knowledge base.", no_args_is_help=True)
Id = Annotated[str, typer.Argument(help="The document's id.")]
COLUMNS = ["id", "source", "external_id", "status", "chunk_count", "bytes", "updated_at"]


@app.command("list")
def list_documents(
    kb: Kb = "default",
    status: Annotated[str | None, typer.Option(help="queued, parsing, chunking, embedding, ready, failed.")] = None,
    filter: Annotated[str | None, typer.Option(help="A filter, as JSON.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="The number of documents, newest first.")] = 50,
    as_json: AsJson = False,
    url: Url = None,
    key: Key = None,
) -> None:
    """List the newest documents.

    Example: carrel documents list --kb handbook --status failed
    """
    with open_client(url, key) as client:
        parsed = parse_json_object("--filter", filter) if filter is not None else None
        filters: Any = drop_unset(status=status, filter=parsed)
        documents = list(islice(client.documents.list(kb, **filters), limit))
    print_list(documents, COLUMNS, as_json=as_json)


@app.command()
def show(document: Id, kb: Kb = "default", as_json: AsJson = False, url: Url = None, key: Key = None) -> None:
    """Show one document with its status, or the reason of its failure.

    Example: carrel documents show doc_… --kb handbook
    """
    with open_client(url, key) as client:
        result = client.documents.get(kb, document)
    print_item(result, as_json=as_json)


@app.command()
def chunks(document: Id, kb: Kb = "default", as_json: AsJson = False, url: Url = None, key: Key = None) -> None:
    """Show the chunks of a document.

    Example: carrel documents chunks doc_… --kb handbook
    """
    with open_client(url, key) as client:
        results = list(client.documents.chunks(kb, document))
    print_list(results, ["chunk_index", "page", "text"], as_json=as_json)


@app.command()
def download(
    document: Id,
    to: Annotated[Path, typer.Argument(help="The file to write.")],
    kb: Kb = "default",
    as_json: AsJson = False,
    url: Url = None,
    key: Key = None,
) -> None:
    """Write the original to a file.

    Example: carrel documents download doc_… handbook.pdf --kb handbook
    """
    with open_client(url, key) as client:
        byte_count = client.documents.download(kb, document, to)
    print_item({"file": str(to), "bytes": byte_count}, as_json=as_json)


@app.command()
def delete(
    document: Id, kb: Kb = "default", yes: Yes = False, as_json: AsJson = False, url: Url = None, key: Key = None
) -> None:
    """Delete one: out of every search at once.

    Example: carrel documents delete doc_… --kb handbook --yes
    """
    confirm(f"Delete {document}?", yes)
    with open_client(url, key) as client:
        deletion = client.documents.delete(kb, document)
    print_item({"deletion": deletion}, as_json=as_json)


@app.command()
def reindex(document: Id, kb: Kb = "default", as_json: AsJson = False, url: Url = None, key: Key = None) -> None:
    """Ingest it again: brings back one that failed.

    Example: carrel documents reindex doc_… --kb handbook
    """
    with open_client(url, key) as client:
        result = client.documents.reindex(kb, document)
    print_item(result, as_json=as_json)
