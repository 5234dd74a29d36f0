"""Concurrent upload of files, wait for their ingestion, and detection of changed files."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal, cast

from carrel_client import ApiError, Client

from app.cli.client.file_selection import LocalFile, RemoteIndex, compute_sha256

UNFINISHED_STATUSES = ("queued", "parsing", "chunking", "embedding")
POLL_INTERVAL_SECONDS = 1.0
# These refusals concern every file, so they stop the upload. Other refusals concern one file.
FATAL_STATUS_CODES = frozenset({401, 403, 404})
OutcomeKind = Literal["uploaded", "unchanged", "duplicate", "failed"]


@dataclass(frozen=True, slots=True)
class UploadOutcome:
    """Outcome of one file. ``document_id`` is set after an upload, ``error`` has a code and a message."""

    file: LocalFile
    kind: OutcomeKind
    document_id: str | None = None
    error: Mapping[str, str] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the outcome for ``--json``."""
        required = {"path": str(self.file.path), "external_id": self.file.external_id, "outcome": self.kind}
        optional = {"document": self.document_id, "error": self.error}
        return {**required, **{name: value for name, value in optional.items() if value is not None}}


def load_remote_index(client: Client, kb: str, filters: Mapping[str, str]) -> RemoteIndex:
    """Return an index of the stored documents, without failed documents.

    Args:
        client: Client of the service.
        kb: Name or ID of the knowledge base.
        filters: Filter with the user whose documents are compared. If it is empty, only documents at the level of the
            tenant are compared.

    Raises:
        ApiError: The service refuses the request.
    """
    by_external_id: dict[str, str] = {}
    by_digest: dict[str, str | None] = {}
    query = cast(Any, filters)
    for document in client.documents.list(kb, **query):
        if document["status"] == "failed" or (not filters and document["scope"]["level"] != "tenant"):
            continue
        by_digest[document["sha256"]] = document["external_id"]
        if document["external_id"] is not None:
            by_external_id[document["external_id"]] = document["sha256"]
    return RemoteIndex(by_external_id, by_digest)


@dataclass
class Uploader:
    """Uploader of files to one knowledge base; ``options`` apply to every upload."""

    client: Client
    kb: str
    options: Mapping[str, Any]
    remote_index: RemoteIndex
    concurrency: int
    _claimed: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def upload_all(self, files: Iterable[LocalFile]) -> Iterator[UploadOutcome]:
        """Upload files concurrently, and yield the outcome of each file when it is known.

        Args:
            files: The files to upload. At most twice ``concurrency`` files are taken from the iterable before their
                turn.

        Raises:
            ApiError: The service refuses a request for a reason that concerns every file.
            ConnectionFailed: The service does not answer.
        """
        waiting = iter(files)
        with ThreadPoolExecutor(self.concurrency) as pool:
            running: set[Future[UploadOutcome]] = {
                pool.submit(self.upload, file) for file in islice(waiting, self.concurrency * 2)
            }
            try:
                while running:
                    done, running = wait(running, return_when=FIRST_COMPLETED)
                    running |= {pool.submit(self.upload, file) for file in islice(waiting, len(done))}
                    for future in done:
                        yield future.result()
            finally:
                pool.shutdown(cancel_futures=True)

    def upload(self, file: LocalFile) -> UploadOutcome:
        """Upload one file unless it is stored already, and return the outcome. Raises ApiError, ConnectionFailed."""
        try:
            digest = compute_sha256(file.path)
        except OSError as exc:
            return UploadOutcome(file, "failed", error=_format_read_error(exc))
        decision = self._decide(file, digest)
        if decision != "upload":
            return UploadOutcome(file, cast(OutcomeKind, decision))
        try:
            options = cast(Any, self.options)
            document = self.client.documents.upload(self.kb, file.path, external_id=file.external_id, **options)
        except ApiError as exc:
            if exc.status in FATAL_STATUS_CODES:
                raise
            return UploadOutcome(file, "failed", error={"code": exc.code, "message": exc.detail})
        except OSError as exc:
            return UploadOutcome(file, "failed", error=_format_read_error(exc))
        return UploadOutcome(file, "uploaded", document["id"])

    def _decide(self, file: LocalFile, digest: str) -> str:
        decision = self.remote_index.decide(file.external_id, digest)
        with self._lock:
            if (
                decision == "upload"
                and file.external_id not in self.remote_index.by_external_id
                and digest in self._claimed
            ):
                return "duplicate"
            self._claimed.add(digest)
        return decision


def _format_read_error(error: OSError) -> Mapping[str, str]:
    return {"code": "unreadable", "message": error.strerror or str(error)}


def wait_for_ingestion(
    client: Client, kb: str, uploaded: Mapping[str, LocalFile], on_finished: Callable[[UploadOutcome], None]
) -> None:
    """Wait until all documents are ready or failed.

    Args:
        client: Client of the service.
        kb: Name or ID of the knowledge base.
        uploaded: The files by the IDs of their documents.
        on_finished: Called with the outcome of each document when its ingestion ends.

    Raises:
        ApiError: The service refuses a request.
        ConnectionFailed: The service does not answer.
    """
    waiting = dict(uploaded)
    while waiting:
        unfinished = {
            document["id"]
            for status in UNFINISHED_STATUSES
            for document in client.documents.list(kb, status=cast(Any, status))
        }
        for document_id in [waiting_id for waiting_id in waiting if waiting_id not in unfinished]:
            document = client.documents.get(kb, document_id)
            if document["status"] in UNFINISHED_STATUSES:
                continue
            file = waiting.pop(document_id)
            has_failed = document["status"] == "failed"
            on_finished(
                UploadOutcome(
                    file, "failed" if has_failed else "uploaded", document_id, document["error"] if has_failed else None
                )
            )
        if waiting:
            time.sleep(POLL_INTERVAL_SECONDS)


@dataclass
class DirectoryWatcher:
    """Detector of new and changed files. A file is reported when two consecutive polls see it in the same state, so
    that incomplete files are not uploaded.
    """

    _last_states: dict[LocalFile, tuple[int, int]] = field(default_factory=dict)
    _reported_states: dict[LocalFile, tuple[int, int]] = field(default_factory=dict)

    def poll(self, files: Iterable[LocalFile]) -> list[LocalFile]:
        """Return new or changed files that are complete: unchanged since the last poll, and not yet returned in this
        state.
        """
        changed = []
        for file in files:
            try:
                stat = file.path.stat()
            except OSError:
                continue
            state = (stat.st_mtime_ns, stat.st_size)
            if self._last_states.get(file) == state and self._reported_states.get(file) != state:
                self._reported_states[file] = state
                changed.append(file)
            self._last_states[file] = state
        return changed

    def mark_reported(self, files: Iterable[LocalFile]) -> None:
        """Mark files as returned in their current state."""
        self.poll(files)
        self.poll(files)
