"""Upload of the corpus of an evaluation set to a knowledge base; the corpus ids become external IDs."""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from carrel_client import Client, NotFound

from app.cli.evaluation.datasets import CorpusLine, DatasetError, read_lines
from app.cli.evaluation.runner import map_concurrently
from app.errors import AppError

UNFINISHED_STATUSES = ("queued", "parsing", "chunking", "embedding")
PAGE_SIZE = 200
STALL_TIMEOUT_SECONDS = 300.0


class CorpusUploadFailed(AppError):
    """The corpus could not be uploaded."""

    code = "corpus_upload_failed"


def read_corpus(path: Path) -> list[CorpusLine]:
    """Return the documents that have a text, because searches cannot find an empty document. Raises DatasetError."""
    corpus = [line for line in read_lines(path, CorpusLine) if line.text.strip()]
    if not corpus:
        raise DatasetError(f"{path}: the file contains no document with a text")
    return corpus


def ensure_knowledge_base(client: Client, kb: str) -> None:
    """Create the knowledge base if it does not exist. Raises ApiError."""
    try:
        client.knowledge_bases.get(kb)
    except NotFound:
        client.knowledge_bases.create(kb)


def upload_corpus(client: Client, kb: str, corpus: Sequence[CorpusLine], *, concurrency: int) -> Iterator[str]:
    """Upload documents and yield their stored ids; unchanged documents stay as they are. Raises ApiError."""

    def upload_document(line: CorpusLine) -> str:
        optional = {"title": line.title or None, "metadata": line.metadata}
        provided: dict[str, Any] = {name: value for name, value in optional.items() if value is not None}
        body = {"external_id": line.id, "text": line.text, **provided}
        return str(client.post("knowledge-bases", kb, "documents", body=body)["id"])

    yield from map_concurrently(upload_document, corpus, concurrency=concurrency)


def wait_until_searchable(client: Client, kb: str, on_progress: Callable[[str], None]) -> None:
    """Wait until all documents are ingested.

    Args:
        client: Client of the service.
        kb: Name or ID of the knowledge base.
        on_progress: Called with a status line about the remaining documents.

    Raises:
        CorpusUploadFailed: A document failed, or the number of documents did not change for five minutes.
    """
    previous, changed_at = -1, time.monotonic()
    while unfinished := _count_unfinished(client, kb):
        # A full page of results means that more documents may follow, so the number of documents is unknown.
        if unfinished != previous or unfinished >= PAGE_SIZE:
            previous, changed_at = unfinished, time.monotonic()
        if time.monotonic() - changed_at > STALL_TIMEOUT_SECONDS:
            raise CorpusUploadFailed(
                f"{unfinished} documents of {kb} make no progress; check the workers with `carrel doctor`"
            )
        on_progress(f"{unfinished}{'+' if unfinished >= PAGE_SIZE else ''} documents are being ingested")
        time.sleep(0.2 if unfinished < PAGE_SIZE else 2)
    failed = _list_page(client, kb, status="failed", limit=1)
    if failed:
        name, error = failed[0]["external_id"] or failed[0]["source"], failed[0]["error"] or {}
        raise CorpusUploadFailed(f"document {name} of {kb} failed: {error.get('message')}")


def _count_unfinished(client: Client, kb: str) -> int:
    return sum(len(_list_page(client, kb, status=status, limit=PAGE_SIZE)) for status in UNFINISHED_STATUSES)


def _list_page(client: Client, kb: str, **filters: str | int) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = client.get("knowledge-bases", kb, "documents", params=filters)["items"]
    return items
