"""``carrel jobs``: documents in ingestion, failed documents, and jobs of the queue, with their retry."""

from collections.abc import Iterator
from typing import Annotated, Any, cast

import typer
from carrel_client import Client
from carrel_client.types import QueueJob

from app.cli.client.options import AsJson, Key, Url, drop_unset, open_client
from app.cli.client.output import print_item, print_json, print_list, print_table

app = typer.Typer(
    help="List documents in ingestion and jobs of the queue, and retry failed ones.", no_args_is_help=True
)
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


Kind = Annotated[str | None, typer.Option(help="Only jobs of this kind, for example ingest_document.")]
ErrorCode = Annotated[str | None, typer.Option(help="Only jobs whose last attempt failed with this error code.")]


@app.command()
def queue(
    state: Annotated[
        str | None, typer.Option(help="Only jobs in this state: waiting, postponed, scheduled, running or failed.")
    ] = None,
    kind: Kind = None,
    error_code: ErrorCode = None,
    as_json: AsJson = False,
    url: Url = None,
    key: Key = None,
) -> None:
    """List the jobs of the queue with the role admin: what waits, runs or failed, and why.

    With the operator key, the list has the jobs of all tenants.

    Example: carrel jobs queue --state failed
    """
    with open_client(url, key) as client:
        jobs = list(client.jobs(**drop_unset(state=state, kind=kind, error_code=error_code)))
    if as_json:
        print_json(jobs)
        return
    rows = [
        [job["id"], job["kind"], job["state"], job["attempts"], round(job["age_seconds"]), _format_reason(job)]
        for job in jobs
    ]
    print_table(["id", "kind", "state", "attempts", "age (s)", "reason"], rows)


@app.command()
def show(
    job: Annotated[str, typer.Argument(help="ID of the job (job_…).")],
    as_json: AsJson = False,
    url: Url = None,
    key: Key = None,
) -> None:
    """Show one job of the queue. A finished job is not found.

    Example: carrel jobs show job_…
    """
    with open_client(url, key) as client:
        result = client.job(job)
    print_item(result, as_json=as_json)


@app.command()
def restart(
    job: Annotated[str | None, typer.Argument(help="ID of the job (job_…). Default: all failed jobs.")] = None,
    kind: Kind = None,
    error_code: ErrorCode = None,
    as_json: AsJson = False,
    url: Url = None,
    key: Key = None,
) -> None:
    """Run a failed job of the queue again, or all failed jobs that match.

    Example: carrel jobs restart job_…

    Example: carrel jobs restart --error-code embedding_unavailable
    """
    if job is not None and (kind or error_code):
        raise typer.BadParameter("--kind and --error-code select among all failed jobs; leave out the ID.")
    with open_client(url, key) as client:
        if job is not None:
            client.retry_job(job)
            retried = 1
        else:
            retried = client.retry_jobs(**drop_unset(kind=kind, error_code=error_code))
    print_item({"retried": retried}, as_json=as_json)


def _format_reason(job: QueueJob) -> str:
    error = job["error"]
    waiting = f"waiting for {job['waiting_for'].replace('_', ' ')}" if job["waiting_for"] else ""
    failure = f"{error['code']}: {error['message'] or ''}".rstrip(": ") if error else ""
    return "; ".join(part for part in (waiting, failure) if part)


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
