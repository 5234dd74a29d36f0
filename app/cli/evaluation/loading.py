"""Bring a set's corpus into a knowledge base, each document under its id there, and wait until it is searchable."""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from carrel_client import Client, NotFound

from app.cli.evaluation.asking import side_by_side
from app.cli.evaluation.sets import CorpusLine, SetError, read_lines
from app.errors import AppError

UNFINISHED = ("queued", "parsing", "chunking", "embedding")
PAGE = 200
STUCK_SECONDS = 300.0


class LoadingFailed(AppError):
    """The corpus could not be loaded."""

    code = "loading_failed"


def read_corpus(path: Path) -> list[CorpusLine]:
    """Every document that says something; an empty one cannot be found anyway. Raises SetError."""
    corpus = [line for line in read_lines(path, CorpusLine) if line.text.strip()]
    if not corpus:
        raise SetError(f"{path}: no document")
    return corpus


def make_knowledge_base(client: Client, kb: str) -> None:
    """Unless it is there. Raises ApiError."""
    try:
        client.knowledge_bases.get(kb)
    except NotFound:
        client.knowledge_bases.create(kb)


def upload(client: Client, kb: str, corpus: Sequence[CorpusLine], *, at_once: int) -> Iterator[str]:
    """The documents' ids as they are stored; the same ones again change nothing. Raises ApiError."""

    def put(line: CorpusLine) -> str:
        facts = {"title": line.title or None, "metadata": line.metadata}
        given: dict[str, Any] = {name: value for name, value in facts.items() if value is not None}
        body = {"external_id": line.id, "text": line.text, **given}
        return str(client.post("knowledge-bases", kb, "documents", body=body)["id"])

    yield from side_by_side(put, corpus, at_once=at_once)


def wait_until_searchable(client: Client, kb: str, progressed: Callable[[str], None]) -> None:
    """Raises LoadingFailed where a document failed, or none has got on for five minutes."""
    before, moved = -1, time.monotonic()
    while left := _unfinished(client, kb):
        # A full page says nothing of how many there are.
        if left != before or left >= PAGE:
            before, moved = left, time.monotonic()
        if time.monotonic() - moved > STUCK_SECONDS:
            raise LoadingFailed(f"{left} documents of {kb} are not getting on; does a worker run?")
        progressed(f"{left}{'+' if left >= PAGE else ''} documents are being ingested")
        time.sleep(0.2 if left < PAGE else 2)
    failed = _page(client, kb, status="failed", limit=1)
    if failed:
        name, error = failed[0]["external_id"] or failed[0]["source"], failed[0]["error"] or {}
        raise LoadingFailed(f"document {name} of {kb} failed: {error.get('message')}")


def _unfinished(client: Client, kb: str) -> int:
    return sum(len(_page(client, kb, status=status, limit=PAGE)) for status in UNFINISHED)


def _page(client: Client, kb: str, **filters: str | int) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = client.get("knowledge-bases", kb, "documents", params=filters)["items"]
    return items
