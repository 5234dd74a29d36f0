"""Uploads of hostile files to a running service, and the outcome of each file."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from harness.hostile import HostileFile

BATCH_FILES = 100
BATCH_BYTES = 32 << 20
EXPECTED_CODES = frozenset({
    "encrypted", "corrupt", "unsupported_media_type", "no_text", "too_large", "too_many_pages", "parser_timeout",
    "parser_memory", "embedding_unavailable", "chunker_failed",
})  # fmt: skip
"""Error codes that a failed document may have. ``internal`` is a defect of the service for any file."""


@dataclass(frozen=True, slots=True)
class SentFile:
    """Uploaded file: ``document_id`` if the service accepted it; otherwise ``refusal`` has the reason."""

    file: HostileFile
    kb: str
    document_id: str | None
    refusal: str


@dataclass(frozen=True, slots=True)
class HostileFileOutcome:
    """Outcome of a file.

    Attributes:
        sent: The uploaded file.
        code: ``ready``, an error code, or ``refused: …``.
        is_expected: Whether a correct service may have this outcome.
    """

    sent: SentFile
    code: str
    is_expected: bool


def group_into_batches(files: Iterable[HostileFile]) -> Iterator[tuple[str, list[HostileFile]]]:
    """Group files into batches for one request each.

    A knowledge base stores the same bytes only once, so each copy of a file goes to another knowledge base.

    Args:
        files: The files.

    Yields:
        Name of a knowledge base, and files for it.
    """
    visited: Counter[bytes] = Counter()
    open_batches: dict[str, list[HostileFile]] = defaultdict(list)
    for file in files:
        digest = hashlib.sha256(file.content).digest()
        kb = f"hostile-{visited[digest]}"
        visited[digest] += 1
        batch = open_batches[kb]
        if len(batch) == BATCH_FILES or sum(len(item.content) for item in batch) + len(file.content) > BATCH_BYTES:
            if batch:
                yield kb, batch
            batch = open_batches[kb] = []
        batch.append(file)
    yield from ((kb, batch) for kb, batch in open_batches.items() if batch)


def send_files(client: httpx2.Client, files: Iterable[HostileFile]) -> list[SentFile]:
    """Upload files in batches.

    Args:
        client: Client of the service.
        files: The files.
    """
    sent: list[SentFile] = []
    created: set[str] = set()
    for kb, batch in group_into_batches(files):
        if kb not in created:
            client.post("/v1/knowledge-bases", json={"name": kb}).raise_for_status()
            created.add(kb)
        sent.extend(send_batch(client, kb, batch))
    return sent


def send_batch(client: httpx2.Client, kb: str, batch: Sequence[HostileFile]) -> Iterator[SentFile]:
    """Upload a batch in one request. If the service refuses the whole request, upload each file separately.

    Args:
        client: Client of the service.
        kb: Name of the knowledge base.
        batch: The files.
    """
    form = [("file", (file.name, file.content, file.declared_type)) for file in batch]
    reply = client.post(f"/v1/knowledge-bases/{kb}/documents/batch", files=form)
    if reply.is_success:
        for file, verdict in zip(batch, reply.json()["items"], strict=True):
            if verdict["document"] is not None:
                yield SentFile(file, kb, verdict["document"]["id"], "")
            else:
                yield SentFile(file, kb, None, f"{verdict['status']} {verdict['error']['code']}")
    elif len(batch) > 1:
        for file in batch:
            yield from send_batch(client, kb, [file])
    else:
        yield SentFile(batch[0], kb, None, f"{reply.status_code} the whole request")


def collect_outcomes(client: httpx2.Client, sent: Sequence[SentFile]) -> list[HostileFileOutcome]:
    """Return the outcomes of uploaded files. Call it when the queue of the service is empty.

    Args:
        client: Client of the service.
        sent: The uploaded files.
    """
    result = {
        document["id"]: "ready" if document["status"] == "ready" else (document["error"] or {}).get("code", "unsettled")
        for kb in sorted({item.kb for item in sent})
        for document in _iter_documents(client, kb)
    }
    return [_determine_outcome(item, result) for item in sent]


def _determine_outcome(sent: SentFile, result: dict[str, str]) -> HostileFileOutcome:
    if sent.document_id is None:
        return HostileFileOutcome(sent, f"refused: {sent.refusal}", not sent.refusal.startswith("5"))
    word = result.get(sent.document_id, "lost")
    return HostileFileOutcome(sent, word, word == "ready" or word in EXPECTED_CODES)


def _iter_documents(client: httpx2.Client, kb: str) -> Iterator[dict[str, Any]]:
    cursor: str | None = None
    while True:
        parameters = {"limit": "200"} | ({"cursor": cursor} if cursor else {})
        reply = client.get(f"/v1/knowledge-bases/{kb}/documents", params=parameters)
        reply.raise_for_status()
        yield from reply.json()["items"]
        cursor = reply.json()["next_cursor"]
        if cursor is None:
            return


def save_files(folder: Path, wrong: Sequence[HostileFileOutcome]) -> None:
    """Save the files with unexpected outcomes, and a list that describes how they were generated.

    Args:
        folder: Folder to write to; it is created.
        wrong: Outcomes of these files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for number, end in enumerate(wrong):
        suffix = "".join(char for char in Path(end.sent.file.name).suffix[:10] if char.isalnum() or char == ".")
        (folder / f"{number:04}{suffix}").write_bytes(end.sent.file.content)
        lines.append(f"{number:04} {end.code}: {end.sent.file.family}, {end.sent.file.label}\n")
    (folder / "list.txt").write_text("".join(lines), "utf-8")
