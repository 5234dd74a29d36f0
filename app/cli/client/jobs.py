"""``carrel jobs``: documents in ingestion, failed documents, and their retry."""

from collections.abc import Iterator
from typing import Annotated, Any, cast

import typer
from carrel_client import Client

from app.cli.client.options import AsJson, Key, Url, open_client
from app.cli.client.output import print_json, print_list, print_table

app = typer.Typer(help="List documents in ingestion and failed documents, and retry them.", no_args_is_help=True)
UNFINISHED_STATUSES = ("embedding", "chunking", "parsing", "queued")
Kbs = Annotated[
    list[str] | None, typer.Option("--kb", help="Knowledge base; may be repeated. Default: all knowledge bases.")
]


@app.command("list")
def list_jobs(
    kb: Kbs = None,
    failed: Annotated[bool, typer.Option("--failed", help="Only failed documents, with the reason.")] = False,
    as_json: AsJson = False,
    url: Url = None,
    key: Key = None,
) -> None:
    """List documents that wait for ingestion, are being ingested, or have failed.

    Example: carrel jobs list

    Example: carrel jobs list --kb handbook --failed
    """
    with open_client(url, key) as client:
        statuses = ("failed",) if failed else (*UNFINISHED_STATUSES, "failed")
        documents = list(_iterate_documents(client, kb, statuses))
    if as_json:
        print_json(documents)
        return
    rows = [
        [document["knowledge_base"], document["id"], document["source"], document["status"], _format_detail(document)]
        for document in documents
    ]
    print_table(["kb", "id", "source", "status", "detail"], rows)


@app.command()
def retry(kb: Kbs = None, as_json: AsJson = False, url: Url = None, key: Key = None) -> None:
    """Ingest failed documents again if the reason of the failure may be temporary.

    Documents that failed for a permanent reason, such as a damaged file, are left out.

    Example: carrel jobs retry --kb handbook
    """
    with open_client(url, key) as client:
        retryable = [
            document
            for document in _iterate_documents(client, kb, ("failed",))
            if (document["error"] or {}).get("retryable")
        ]
        results = [client.documents.reindex(document["knowledge_base"], document["id"]) for document in retryable]
    print_list(results, ["id", "source", "status"], as_json=as_json)


def _iterate_documents(
    client: Client, knowledge_bases: list[str] | None, statuses: tuple[str, ...]
) -> Iterator[dict[str, Any]]:
    for name in knowledge_bases or [knowledge_base["name"] for knowledge_base in client.knowledge_bases.list()]:
        for status in statuses:
            yield from cast(Iterator[dict[str, Any]], client.documents.list(name, status=cast(Any, status)))


def _format_detail(document: dict[str, Any]) -> str:
    error, progress = document["error"], document["progress"]
    if error:
        return f"{error['code']}: {error['message']}"
    if progress and "waiting_for" in progress:
        return f"waiting for {progress['waiting_for'].replace('_', ' ')}"
    return f"{progress['done']} of {progress['total']} {progress['unit']}" if progress else ""
