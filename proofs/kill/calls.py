"""HTTP client that repeats a request until the service accepts or refuses it."""

import itertools
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx2

from proofs.kill.corpus import UploadContent
from proofs.kill.expectations import ReturnedChunk

KB = "kill-test"
DOCUMENTS = f"/v1/knowledge-bases/{KB}/documents"
MAX_CHUNKS = 500
RETRY_INTERVAL_SECONDS = 0.1
ANSWER_TIMEOUT_SECONDS = 180.0


class NoAnswerError(Exception):
    """The service did not settle a request within 180 seconds although killed processes are restarted at once."""


@dataclass(slots=True)
class PatientClient:
    """Client with one connection pool for each thread and API. After a failure, a thread uses the next API.

    ``retry_counts`` counts the causes of repeated requests: statuses, and ``cut`` for broken connections.
    """

    urls: Sequence[str]
    key: str
    retry_counts: Counter[str] = field(default_factory=Counter)
    _local: threading.local = field(default_factory=threading.local)

    @property
    def client(self) -> httpx2.Client:
        """Client of the current thread."""
        if not hasattr(self._local, "clients"):
            headers = {"Authorization": f"Bearer {self.key}"}
            clients = [httpx2.Client(base_url=url, headers=headers, timeout=60) for url in self.urls]
            self._local.clients = itertools.cycle(clients)
            self._switch_api()
        client: httpx2.Client = self._local.client
        return client

    def _switch_api(self) -> None:
        self._local.client = next(self._local.clients)

    def try_request(self, method: str, path: str, **arguments: Any) -> httpx2.Response | None:
        """Send a request once. Return None without a reply or for status 409, 429 and 5xx."""
        try:
            reply = self.client.request(method, path, **arguments)
        except httpx2.TransportError:
            self.retry_counts["cut"] += 1
            self._switch_api()
            return None
        if reply.status_code in (409, 429) or reply.status_code >= 500:
            self.retry_counts[str(reply.status_code)] += 1
            self._switch_api()
            return None
        return reply

    def request_until_answered(self, method: str, path: str, **arguments: Any) -> tuple[httpx2.Response, bool]:
        """Repeat a request until a reply settles it.

        Returns:
            The reply, and whether an earlier attempt may already have succeeded.

        Raises:
            NoAnswerError: No reply settled the request within 180 s.
        """
        end, again = time.monotonic() + ANSWER_TIMEOUT_SECONDS, False
        while time.monotonic() < end:
            reply = self.try_request(method, path, **arguments)
            if reply is not None:
                return reply, again
            again = True
            time.sleep(RETRY_INTERVAL_SECONDS)
        raise NoAnswerError(f"{method} {path}")

    def upload(self, slot: int, content: UploadContent) -> httpx2.Response:
        """Upload a content as a file or as JSON under the slot's external id."""
        facts = {"external_id": build_external_id(slot)}
        if content.body is not None:
            body = {**content.body, **facts, "metadata": {"slot": slot}}
            return self.request_until_answered("POST", DOCUMENTS, json=body)[0]
        file = {"file": (content.filename, content.file, content.media_type)}
        data = {**facts, "metadata": f'{{"slot": {slot}}}'}
        return self.request_until_answered("POST", DOCUMENTS, data=data, files=file)[0]

    def search(self, slot: int, strategy: str) -> list[ReturnedChunk] | None:
        """Return all chunks of a slot that a search finds, or None without a reply or if the search has warnings."""
        body = {
            "query": "harbour island jetty",
            "strategy": strategy,
            "top_k": MAX_CHUNKS,
            "filter": {"slot": slot},
            "timeout_seconds": 30,
        }
        reply = self.try_request("POST", f"/v1/knowledge-bases/{KB}/search", json=body)
        if reply is None:
            return None
        result = reply.raise_for_status().json()
        if result["warnings"]:
            return None
        return [
            ReturnedChunk(item["document"]["id"], item["chunk_index"], item["total_chunks"], item["text"])
            for item in result["results"]
        ]

    def list_documents(self, slot: int) -> list[dict[str, Any]] | None:
        """Return the documents with the slot's external id, or None without a reply."""
        reply = self.try_request("GET", DOCUMENTS, params={"external_id": build_external_id(slot)})
        if reply is None:
            return None
        result: list[dict[str, Any]] = reply.raise_for_status().json()["items"]
        return result

    def list_chunks(self, document: str) -> list[ReturnedChunk] | None:
        """Return the chunks of a document if they fit on one page, else None; also None without a reply or document."""
        reply = self.try_request("GET", f"{DOCUMENTS}/{document}/chunks", params={"limit": 200})
        if reply is None or reply.status_code == 404:
            return None
        page = reply.raise_for_status().json()
        if page["next_cursor"] is not None:
            return None
        return [
            ReturnedChunk(document, item["chunk_index"], item["total_chunks"], item["text"]) for item in page["items"]
        ]


def build_external_id(slot: int) -> str:
    """Build the external id of the slot's document."""
    return f"slot-{slot}"
