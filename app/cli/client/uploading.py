"""Upload files side by side, follow their ingestion, and keep watching a directory."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal, cast

from carrel_client import ApiError, Client

from app.cli.client.finding import Found, Known, digest_of

UNFINISHED = ("queued", "parsing", "chunking", "embedding")
POLL_SECONDS = 1.0
# What else is wrong with a file is no reason to stop; this is.
HOPELESS = frozenset({401, 403, 404})
Outcome = Literal["uploaded", "unchanged", "duplicate", "failed"]


@dataclass(frozen=True, slots=True)
class Told:
    """What became of a file; ``document`` is its id where it was uploaded, ``error`` has a code and a message."""

    file: Found
    outcome: Outcome
    document: str | None = None
    error: Mapping[str, str] | None = None

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        facts = {"path": str(self.file.path), "external_id": self.file.external_id, "outcome": self.outcome}
        more = {"document": self.document, "error": self.error}
        return {**facts, **{name: value for name, value in more.items() if value is not None}}


def known_documents(client: Client, kb: str, level: Mapping[str, str]) -> Known:
    """What the knowledge base has at this level, but for what has failed. Raises ApiError."""
    by_external_id: dict[str, str] = {}
    by_digest: dict[str, str | None] = {}
    filters = cast(Any, level)
    for document in client.documents.list(kb, **filters):
        if document["status"] == "failed" or (not level and document["scope"]["level"] != "tenant"):
            continue
        by_digest[document["sha256"]] = document["external_id"]
        if document["external_id"] is not None:
            by_external_id[document["external_id"]] = document["sha256"]
    return Known(by_external_id, by_digest)


@dataclass
class Uploader:
    """Uploads to one knowledge base; ``options`` are said of every document."""

    client: Client
    kb: str
    options: Mapping[str, Any]
    known: Known
    at_once: int
    _claimed: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def upload_all(self, files: Iterable[Found]) -> Iterator[Told]:
        """What became of each, as they end. Raises ApiError where no further file would do better, ConnectionFailed."""
        waiting = iter(files)
        with ThreadPoolExecutor(self.at_once) as pool:
            running: set[Future[Told]] = {pool.submit(self.upload, file) for file in islice(waiting, self.at_once * 2)}
            try:
                while running:
                    done, running = wait(running, return_when=FIRST_COMPLETED)
                    running |= {pool.submit(self.upload, file) for file in islice(waiting, len(done))}
                    for future in done:
                        yield future.result()
            finally:
                pool.shutdown(cancel_futures=True)

    def upload(self, file: Found) -> Told:
        """One file, unless it is there."""
        try:
            digest = digest_of(file.path)
        except OSError as exc:
            return Told(file, "failed", error=_unreadable(exc))
        verdict = self._verdict(file, digest)
        if verdict != "upload":
            return Told(file, cast(Outcome, verdict))
        try:
            options = cast(Any, self.options)
            document = self.client.documents.upload(self.kb, file.path, external_id=file.external_id, **options)
        except ApiError as exc:
            if exc.status in HOPELESS:
                raise
            return Told(file, "failed", error={"code": exc.code, "message": exc.detail})
        except OSError as exc:
            return Told(file, "failed", error=_unreadable(exc))
        return Told(file, "uploaded", document["id"])

    def _verdict(self, file: Found, digest: str) -> str:
        verdict = self.known.verdict(file.external_id, digest)
        with self._lock:
            if verdict == "upload" and file.external_id not in self.known.by_external_id and digest in self._claimed:
                return "duplicate"
            self._claimed.add(digest)
        return verdict


def _unreadable(error: OSError) -> Mapping[str, str]:
    return {"code": "unreadable", "message": error.strerror or str(error)}


def follow(client: Client, kb: str, uploaded: Mapping[str, Found], ended: Callable[[Told], None]) -> None:
    """Wait until all of these documents are ready or failed. Raises ApiError, ConnectionFailed."""
    waiting = dict(uploaded)
    while waiting:
        under_way = {
            document["id"] for status in UNFINISHED for document in client.documents.list(kb, status=cast(Any, status))
        }
        for identity in [one for one in waiting if one not in under_way]:
            document = client.documents.get(kb, identity)
            if document["status"] in UNFINISHED:
                continue
            file = waiting.pop(identity)
            failed = document["status"] == "failed"
            ended(Told(file, "failed" if failed else "uploaded", identity, document["error"] if failed else None))
        if waiting:
            time.sleep(POLL_SECONDS)


@dataclass
class Changes:
    """Which files are new or changed since the last look; one that still changes is waited for."""

    _seen: dict[Found, tuple[int, int]] = field(default_factory=dict)
    _told: dict[Found, tuple[int, int]] = field(default_factory=dict)

    def look(self, files: Iterable[Found]) -> list[Found]:
        """Those that are as they were at the last look, and were not told of as they are now."""
        ripe = []
        for file in files:
            try:
                stat = file.path.stat()
            except OSError:
                continue
            state = (stat.st_mtime_ns, stat.st_size)
            if self._seen.get(file) == state and self._told.get(file) != state:
                self._told[file] = state
                ripe.append(file)
            self._seen[file] = state
        return ripe

    def skip(self, files: Iterable[Found]) -> None:
        """These were dealt with as they are."""
        self.look(files)
        self.look(files)
