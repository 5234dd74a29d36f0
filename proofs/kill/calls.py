"""HTTP as patient clients do it: tried again until the service says yes or no."""

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
    """The service did not answer for minutes, though everything is started again at once."""


@dataclass(slots=True)
class PatientClient:
    """Clients, one a thread, each at one API until that does not answer, then at the next.

    ``refused`` counts what did not settle a request: statuses, and ``cut`` connections.
    """

    urls: Sequence[str]
    key: str
    retry_counts: Counter[str] = field(default_factory=Counter)
    _local: threading.local = field(default_factory=threading.local)

    @property
    def client(self) -> httpx2.Client:
        """This thread's."""
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
        """The answer; None where there was none, or one that asks for patience."""
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
        """The first answer that settles it, and whether an earlier try may have done it already. Raises NoAnswer."""
        end, again = time.monotonic() + ANSWER_TIMEOUT_SECONDS, False
        while time.monotonic() < end:
            reply = self.try_request(method, path, **arguments)
            if reply is not None:
                return reply, again
            again = True
            time.sleep(RETRY_INTERVAL_SECONDS)
        raise NoAnswerError(f"{method} {path}")

    def upload(self, slot: int, content: UploadContent) -> httpx2.Response:
        """As a file or as JSON, under the slot's external id. Raises NoAnswer."""
        facts = {"external_id": build_external_id(slot)}
        if content.body is not None:
            body = {**content.body, **facts, "metadata": {"slot": slot}}
            return self.request_until_answered("POST", DOCUMENTS, json=body)[0]
        file = {"file": (content.filename, content.file, content.media_type)}
        data = {**facts, "metadata": f'{{"slot": {slot}}}'}
        return self.request_until_answered("POST", DOCUMENTS, data=data, files=file)[0]

    def search(self, slot: int, strategy: str) -> list[ReturnedChunk] | None:
        """Everything that is found of the slot; None without an answer, and where a lane could not answer."""
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
        """The documents under the slot's external id; None without an answer."""
        reply = self.try_request("GET", DOCUMENTS, params={"external_id": build_external_id(slot)})
        if reply is None:
            return None
        result: list[dict[str, Any]] = reply.raise_for_status().json()["items"]
        return result

    def list_chunks(self, document: str) -> list[ReturnedChunk] | None:
        """The document's list of chunks, where it fits on one page; None without one, or without the document."""
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
    """What the slot's document is called by its owner."""
    return f"slot-{slot}"
