"""Service of the deadline proof with all its dependencies, each of which can be slowed down or broken."""

import asyncio
import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Self

import asyncpg
import httpx2

from app.db.migrate import migrate_database
from app.embedded_postgres import DatabaseUrls, EmbeddedPostgres
from app.embedded_postgres.server import find_free_ports
from harness.processes import ROOT, build_environment, wait_for_answer, wait_until_ingested
from harness.protocol_servers.chat import ChatServer, ReceivedTextRequest
from harness.protocol_servers.embedding import EmbeddingServer
from harness.protocol_servers.rerank import RerankServer
from harness.protocol_servers.site_search import SiteSearchServer, build_source_settings
from harness.protocol_servers.slow_link import SlowLink

OPERATOR_KEY = "deadline-test-operator-key-0123456789"
BUDGETS_SECONDS = (5.0, 2.0)
RECOVERY_TIMEOUT_SECONDS = 150.0
TEXTS = [
    "The harbour museum is open from ten to six, on Mondays it is closed.",
    "A ticket of the harbour museum costs twelve euros, for children it is free.",
    "The ferry to the lighthouse leaves from the old harbour at noon.",
    "Parental leave lasts fourteen weeks and is paid in full.",
]
VISITOR_NUMBERS = itertools.count()


def reply_as_rewriter(talk: ReceivedTextRequest) -> str:
    """Return the reply of the chat model to a request of the query rewriter."""
    material = json.loads(next(item["content"] for item in talk.messages if item["role"] == "user"))
    return json.dumps({"query": f"opening hours of the museum, {material['question']}", "analysis": "Hours."})


@dataclass(frozen=True, slots=True)
class DeadlineServices:
    """Running service and protocol servers for all its dependencies."""

    url: str
    key: str
    urls: DatabaseUrls
    link: SlowLink
    chat: ChatServer
    embedding: EmbeddingServer
    reranker: RerankServer
    site: SiteSearchServer

    @classmethod
    @contextmanager
    def open(cls) -> Iterator[Self]:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="carrel-deadline-")))
            folder.chmod(0o711)  # under root, Postgres runs as another user, who must be able to enter this directory
            urls = stack.enter_context(EmbeddedPostgres(folder / "postgres", fsync=False)).ensure_database()
            asyncio.run(migrate_database(urls.owner, urls.app))
            link = stack.enter_context(SlowLink(urls.app))
            chat = stack.enter_context(ChatServer(reply=reply_as_rewriter))
            embedding = stack.enter_context(EmbeddingServer())
            reranker = stack.enter_context(RerankServer())
            site = stack.enter_context(SiteSearchServer())
            settings = {
                "CARREL_DATABASE_URL": link.url,
                "CARREL_ADMIN_DATABASE_URL": urls.owner,
                "CARREL_CHAT_BASE_URL": chat.base_url,
                "CARREL_CHAT_MODEL": "talker",
                "CARREL_RERANK_URL": reranker.url,
                **build_source_settings(site),
                "CARREL_LOG_LEVEL": "error",
                "CARREL_OPERATOR_KEY": OPERATOR_KEY,
                **embedding.settings,
            }
            url = stack.enter_context(served_api(folder / "data", settings))
            headers = {"Authorization": f"Bearer {OPERATOR_KEY}"}
            created = httpx2.post(f"{url}/v1/tenants", json={"name": "patient"}, headers=headers, timeout=30)
            key = created.raise_for_status().json()["api_key"]["key"]
            yield cls(url, key, urls, link, chat, embedding, reranker, site)

    def create_client(self) -> httpx2.Client:
        """Create a client with the tenant's API key."""
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
        headers = {"Authorization": f"Bearer {self.key}"}
        return httpx2.Client(base_url=self.url, headers=headers, timeout=150, limits=limits)

    def fill(self) -> None:
        """Create documents, a knowledge base on an HTTP source, and two agents for each budget, with and without it."""
        source = {
            "url": self.site.url,
            "params": {"q": "{query}", "n": "{top_k}"},
            "response": {"items": "results", "text": "snippet", "title": "title", "url": "link", "score": "rank"},
            "timeout_seconds": 30,
        }
        with self.create_client() as client:
            for text in TEXTS:
                client.post("/v1/knowledge-bases/default/documents", json={"text": text}).raise_for_status()
            client.post("/v1/knowledge-bases", json={"name": "site", "kind": "http", "source": source})
            for budget in BUDGETS_SECONDS:
                for name, names in {"local": ["default"], "both": ["default", "site"]}.items():
                    body = {"knowledge_bases": names, "timeout_seconds": budget}
                    client.put(f"/v1/agents/{name}-{budget:g}", json=body).raise_for_status()
            wait_until_ingested(client, "default")

    def restore(self) -> None:
        """Remove all faults and wait until a search has no warnings."""
        self.link.delay_seconds = 0.0
        self.link.release()
        self.chat.reset()
        self.chat.delay_seconds = 0.0
        self.embedding.reset()
        self.reranker.reset()
        self.site.reset()
        end = time.monotonic() + RECOVERY_TIMEOUT_SECONDS
        with self.create_client() as client:
            while time.monotonic() < end:
                body = {
                    "messages": build_conversation(),
                    "rerank": True,
                    "timeout_seconds": 5,
                    "knowledge_bases": ["default", "site"],
                }
                reply = client.post("/v1/search", json=body)
                if reply.is_success and not reply.json()["warnings"]:
                    return
                time.sleep(0.25)
        raise RuntimeError(f"searches still have warnings {RECOVERY_TIMEOUT_SECONDS:.0f} s after the end of the fault")

    @contextmanager
    def locked_table(self, table: str) -> Iterator[None]:
        """Lock a table against all other sessions until the block ends."""
        with asyncio.Runner() as runner:
            connection = runner.run(asyncpg.connect(self.urls.owner))
            try:
                runner.run(connection.execute(f"begin; lock table {table} in access exclusive mode"))
                yield
            finally:
                runner.run(connection.close())


def build_conversation() -> list[dict[str, str]]:
    """Build a conversation with a new question in every call, so that no cache has its query."""
    return [
        {"role": "customer", "content": "I would like to see the harbour museum."},
        {"role": "agent", "content": "Gladly."},
        {"role": "customer", "content": f"When is it open, for visitor {next(VISITOR_NUMBERS)}?"},
    ]


@contextmanager
def served_api(data_dir: Path, settings: dict[str, str]) -> Iterator[str]:
    """Start ``carrel serve`` with settings and yield its URL."""
    (port,) = islice(find_free_ports(), 1)
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "app.cli", "serve", "--port", str(port), "--data-dir", str(data_dir)]
    environment = build_environment() | settings
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment, cwd=ROOT) as process:
        try:
            if not wait_for_answer(process, lambda: httpx2.get(f"{url}/readyz", timeout=2).is_success or None):
                raise RuntimeError(f"the service at {url} did not start")
            yield url
        finally:
            process.terminate()
