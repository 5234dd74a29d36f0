"""Tenant whose documents were inserted, replaced and deleted at random, with a plain model of the rest."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

if TYPE_CHECKING:
    from harness.running_service import Service, Tenant


_NOUNS = """
    anchor basket candle dagger eagle feather garden hammer island jacket kettle ladder magnet needle orchard pebble
    quarry ribbon saddle temple umbrella velvet window yellow zipper bridge copper dragon engine forest goblet harbor
"""
WORDS = _NOUNS.split()
WEIGHTS = [1 / rank for rank in range(1, len(WORDS) + 1)]
LEVELS: list[dict[str, str]] = [
    {},
    {"user_id": "u1"},
    {"user_id": "u2"},
    {"chat_id": "c1"},
    {"chat_id": "c2"},
    {"chat_id": "c1", "agent_id": "a1"},
    {"chat_id": "c1", "agent_id": "a2"},
    {"chat_id": "c2", "agent_id": "a1"},
    {"user_id": "u1", "chat_id": "c1"},
    {"user_id": "u2", "chat_id": "c1"},
    {"user_id": "u1", "chat_id": "c1", "agent_id": "a1"},
]


@dataclass(frozen=True)
class SentDocument:
    """A document of one chunk, as it was sent."""

    text: str
    metadata: dict[str, Any]
    scope: dict[str, str]

    def visible_to(self, asked: dict[str, str]) -> bool:
        """Return whether a search that names these ids may see the document: each of the document's ids has to be
        named. The document of a chat without a user needs a search without a user.
        """
        if "chat_id" in self.scope and self.scope.get("user_id") != asked.get("user_id"):
            return False
        return all(asked.get(name) == value for name, value in self.scope.items())


@dataclass(frozen=True)
class Corpus:
    """Documents of a tenant; ``passages`` is by document id."""

    tenant: Tenant
    passages: dict[str, SentDocument] = field(default_factory=dict)

    def search(self, query: str, **body: Any) -> list[dict[str, Any]]:
        """Return the results, one for each document."""
        return results_of(ask(self.tenant.admin, query=query, **body))

    def expected(self, asked: dict[str, str], keep: Callable[[dict[str, Any]], bool]) -> dict[str, SentDocument]:
        """Return the documents that a search with this scope and filter may return."""
        return {
            key: passage
            for key, passage in self.passages.items()
            if passage.visible_to(asked) and keep(passage.metadata)
        }


def ask(client: httpx2.Client, **body: Any) -> dict[str, Any]:
    """Search once in the knowledge base ``default``."""
    reply = client.post("/v1/knowledge-bases/default/search", json=body)
    reply.raise_for_status()
    answer: dict[str, Any] = reply.json()
    return answer


def results_of(answer: dict[str, Any]) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = answer["results"]
    return results


def ids_of(results: list[dict[str, Any]]) -> list[str]:
    return [result["document"]["id"] for result in results]


def post_text(tenant: Tenant, text: str, **fields: Any) -> str:
    """Queue a text; return the document's id."""
    reply = tenant.admin.post("/v1/knowledge-bases/default/documents", json={"text": text, **fields})
    reply.raise_for_status()
    return str(reply.json()["id"])


def settle(tenant: Tenant) -> None:
    """Wait until every document is ready."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        counts = [
            len(tenant.admin.get("/v1/knowledge-bases/default/documents", params={"status": status}).json()["items"])
            for status in ("queued", "parsing", "chunking", "embedding")
        ]
        if not any(counts):
            return
        time.sleep(0.05)
    raise TimeoutError("documents are still being ingested")


@pytest.fixture(scope="session")
def corpus(service: Service) -> Corpus:
    """Forty documents, some of them replaced or deleted."""
    rng = random.Random(11)
    corpus = Corpus(service.create_tenant("corpus"))

    def put(name: str, number: int) -> None:
        text = " ".join(rng.choices(WORDS, WEIGHTS, k=rng.randint(3, 40))) + f" number{number}"
        metadata = {"year": 2000 + number % 20, "odd": number % 2 == 1, "tags": rng.sample(["x", "y", "z"], 2)}
        if number % 24 == 0:
            metadata["rare"] = "yes"
        scope = LEVELS[number // 2 % len(LEVELS)] if number % 2 else {}
        key = post_text(corpus.tenant, text, external_id=name, metadata=metadata, **scope)
        corpus.passages[key] = SentDocument(text, metadata, scope)

    for number in range(40):
        put(f"document {number}", number)
    settle(corpus.tenant)
    for number in rng.sample(range(40), 6):
        put(f"document {number}", number)
    settle(corpus.tenant)
    for key in rng.sample(sorted(corpus.passages), 6):
        corpus.tenant.admin.delete(f"/v1/knowledge-bases/default/documents/{key}").raise_for_status()
        del corpus.passages[key]
    return corpus
