"""``make prove NAME=noisy-neighbour``: measure the searches of one tenant while another one attacks the service.

The proof starts a real service with a worker. The victim, tenant V, searches a small knowledge base every 50 ms and
uploads a document of three lines. The attacker, tenant A, uses valid API keys, or connections without a key. During an
attack, the 95th percentile of V's searches may be at most three times the value without an attack. Values up to 150 ms
are always accepted, because the machine can be busy. V's document must be ready within five seconds, and V may get no
5xx.
"""

import argparse
import asyncio
import json
import resource
import ssl
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any

import asyncpg
import httpx2

from harness.knowledge_base_copies import ADD_KNOWLEDGE_BASES_SQL
from harness.processes import RunningService, embedding_endpoint, exit_on_sigterm, running_service
from proofs.noisy_attacks import (
    PATTERN_UNIT,
    QUERIES,
    Tarpit,
    attack_process,
    build_expensive_filter,
    build_request,
    occupy_connections,
    send_repeatedly,
)

SEARCH_INTERVAL_SECONDS, WINDOW_SECONDS, SETTLE_SECONDS = 0.05, 12.0, 2.0
# Time to open all connections (500 a second) before the measurement starts.
OPENING_SECONDS = 20.0
IDLE_WINDOWS, IDLE_SECONDS = 3, 5.0
MAX_TIMES_IDLE, FLOOR_SECONDS, MAX_READY_SECONDS = 3.0, 0.15, 5.0
SOFT_DESCRIPTORS = 1024
CHUNKS, BLOB_CHARACTERS, FULL_KNOWLEDGE_BASES, RAISED_QUOTA = 20_000, 15_000, 100, 8_000
DOCUMENTS = "/v1/knowledge-bases/{}/documents"
HEAVY_KB = "heavy"
FILL_BLOBS_SQL = "update {} set metadata = metadata || jsonb_build_object('blob', $2::text) where tenant_id = $1"


@dataclass
class MeasuredWindow:
    """Measurements of V in a time window: seconds of searches, statuses, and seconds until the document was ready."""

    search_seconds: list[float] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    ready_seconds: float | None = None

    @property
    def p50(self) -> float:
        return statistics.median(self.search_seconds)

    @property
    def p95(self) -> float:
        return sorted(self.search_seconds)[int(len(self.search_seconds) * 0.95)]

    @property
    def failed_count(self) -> int:
        return sum(status >= 500 or status == 0 for status in self.statuses)


@dataclass(frozen=True)
class AttackRow:
    """Result of one attack: a row of the table."""

    name: str
    window: MeasuredWindow
    attacker_replies: str
    reasons: list[str]


class Victim:
    """Client of tenant V. Every fourth search opens a new connection; the others share a keep-alive connection."""

    def __init__(self, service: RunningService, key: str) -> None:
        self.client = httpx2.Client(base_url=service.url, headers={"Authorization": f"Bearer {key}"}, timeout=60)
        self.tls = ssl.create_default_context()  # created once, because that takes longer than a search
        self.number = 0

    def store_documents(self) -> None:
        """Upload five documents for V's searches and wait until they are ready."""
        for number in range(5):
            reply = self.client.post(
                DOCUMENTS.format("default"),
                params={"wait": 60},
                json={
                    "text": f"The {number}. ferry leaves at seven.\nThe pier is in the north.\nTickets are on board."
                },
            )
            reply.raise_for_status()

    def watch(self, seconds: float, *, uploads: bool) -> MeasuredWindow:
        """Search every 50 ms for ``seconds``. With ``uploads``, a thread also uploads a document and waits for it."""
        window, end = MeasuredWindow(), time.monotonic() + seconds
        uploading = threading.Thread(target=self._upload, args=(window,))
        if uploads:
            uploading.start()
        while time.monotonic() < end:
            began = time.perf_counter()
            window.statuses.append(self._search())
            window.search_seconds.append(time.perf_counter() - began)
            time.sleep(max(0.0, SEARCH_INTERVAL_SECONDS - (time.perf_counter() - began)))
        if uploads:
            uploading.join()
        return window

    def _search(self) -> int:
        self.number += 1
        body = {"query": f"When does the ferry leave? {self.number % 20}", "top_k": 3}
        path = "/v1/knowledge-bases/default/search"
        if self.number % 4 == 0:
            with suppress(httpx2.TransportError), self._create_client() as client:
                return client.post(path, json=body).status_code
            return 0
        for _ in range(2):  # like most clients, send again if the server has closed the idle connection
            with suppress(httpx2.TransportError):
                return self.client.post(path, json=body).status_code
        return 0

    def _create_client(self) -> httpx2.Client:
        return httpx2.Client(
            base_url=self.client.base_url, headers=self.client.headers, timeout=60, verify=self.tls, trust_env=False
        )

    def _upload(self, window: MeasuredWindow) -> None:
        text = f"Notice {time.time()}.\nThe café on the pier is closed today.\nIt opens again tomorrow."
        began = time.monotonic()
        with suppress(httpx2.TransportError), self._create_client() as client:
            created = client.post(DOCUMENTS.format("default"), json={"text": text})
            if not created.is_success:
                window.statuses.append(created.status_code)
                return
            path = f"{DOCUMENTS.format('default')}/{created.json()['id']}"
            while time.monotonic() - began < 60:
                if client.get(path).json().get("status") == "ready":
                    window.ready_seconds = time.monotonic() - began
                    return
                time.sleep(0.05)


class NoisyTenant:
    """Client of tenant A with valid API keys. Its preparations run before the measurements."""

    def __init__(self, service: RunningService, key: str, tenant: str) -> None:
        self.service, self.key, self.tenant = service, key, tenant
        self.client = httpx2.Client(base_url=service.url, headers={"Authorization": f"Bearer {key}"}, timeout=120)
        operator = (service.data_dir / "operator-key").read_text().strip()
        self.operator = httpx2.Client(base_url=service.url, headers={"Authorization": f"Bearer {operator}"}, timeout=60)

    def prepare(self) -> None:
        """Create 20,000 chunks with 15 KB of metadata each, and 100 knowledge bases with one document each."""
        self.client.post("/v1/knowledge-bases", json={"name": HEAVY_KB}).raise_for_status()
        for part in range(CHUNKS // 1000):
            chunks = [{"text": f"Passage {part * 1000 + number} about lighthouses."} for number in range(1000)]
            body = {"chunks": chunks, "external_id": f"part-{part}"}
            self.client.post(DOCUMENTS.format(HEAVY_KB), json=body).raise_for_status()
        for number in range(FULL_KNOWLEDGE_BASES):
            name = f"full-{number}"
            self.client.post("/v1/knowledge-bases", json={"name": name}).raise_for_status()
            text = "\n\n".join(f"{query}, station {number}." for query in QUERIES)
            self.client.post(DOCUMENTS.format(name), json={"text": text}).raise_for_status()
        self._wait()
        asyncio.run(self.run_sql(*[(FILL_BLOBS_SQL.format(table), PATTERN_UNIT * (BLOB_CHARACTERS // 2)) for table in
                                  ("chunk_embedding", "chunk_lexical")]))  # fmt: skip

    def _wait(self) -> None:
        end = time.monotonic() + 180
        while time.monotonic() < end:
            reply = self.client.get("/v1/usage").json()["storage"]
            if reply["chunks"] >= CHUNKS + FULL_KNOWLEDGE_BASES:
                return
            time.sleep(0.5)
        raise RuntimeError("the documents of the attacker are not ready after 180 s")

    async def run_sql(self, *statements: tuple[Any, ...]) -> None:
        """Run SQL statements as the database owner, with the attacker's tenant id as the first parameter."""
        runtime = json.loads((self.service.data_dir / "runtime.json").read_text())
        owner = await asyncpg.connect(runtime["admin_database_url"])
        try:
            for sql, *values in statements:
                tenant = await owner.fetchval("select id from tenant where name = 'attacker'")
                await owner.execute(sql, tenant, *values, timeout=300)
        finally:
            await owner.close()

    def attack_with_searches(
        self, body: dict[str, Any], at_once: int, path: str = "/v1/search"
    ) -> AbstractContextManager[Any]:
        """Return an attack that repeats one search from ``at_once`` callers."""
        request = build_request(self.key, path, body, "localhost")
        return attack_process(send_repeatedly, self.service.url, request, at_once)

    def attack_with_filters(self, at_once: int) -> AbstractContextManager[Any]:
        """Return an attack of searches with expensive filters and the maximum timeout."""
        body = {"query": "lighthouse", "filter": build_expensive_filter(), "timeout_seconds": 60}
        return self.attack_with_searches(body, at_once, f"/v1/knowledge-bases/{HEAVY_KB}/search")

    def create_knowledge_bases(self) -> None:
        """Create empty knowledge bases until the quota refuses one."""
        for number in range(2_000):
            if not self.client.post("/v1/knowledge-bases", json={"name": f"empty-{number}"}).is_success:
                break

    def attack_all_knowledge_bases(self) -> AbstractContextManager[Any]:
        """Return an attack of searches in all knowledge bases of the attacker."""
        return self.attack_with_searches({"query": "lighthouse", "timeout_seconds": 60}, 24)

    def raise_quota(self) -> None:
        """Raise the quota as the operator and add 8,000 knowledge bases by SQL."""
        quotas = {"quotas": {"knowledge_bases": 2 * RAISED_QUOTA}}
        self.operator.patch(f"/v1/tenants/{self.tenant}", json=quotas)
        asyncio.run(self.run_sql((ADD_KNOWLEDGE_BASES_SQL, RAISED_QUOTA)))

    def attack_with_wide_searches(self) -> AbstractContextManager[Any]:
        """Return an attack of searches with 16 queries in 100 knowledge bases and the largest replies."""
        body = {
            "queries": QUERIES,
            "knowledge_bases": [f"full-{number}" for number in range(FULL_KNOWLEDGE_BASES)],
            "expand": "section",
            "explain": True,
            "return_vectors": True,
            "top_k": 50,
            "timeout_seconds": 60,
        }
        return self.attack_with_searches(body, 8)

    @contextmanager
    def long_texts(self) -> Iterator[dict[int, int]]:
        """Upload two text files of 1.5 MB, whose ingestion is the attack."""
        reported: dict[int, int] = {}
        for number in range(2):
            text = "\n\n".join(f"Section {number}.{line}. " + "It rains on the pier. " * 12 for line in range(5_500))
            files = {"file": (f"long-{number}.txt", text.encode(), "text/plain")}
            status = self.client.post(DOCUMENTS.format("default"), files=files).status_code
            reported[status] = reported.get(status, 0) + 1
        time.sleep(1)
        yield reported

    @contextmanager
    def webhooks(self) -> Iterator[dict[int, int]]:
        """Create forty webhooks to a server that never replies, and upload documents to send events to them."""
        loop, tarpit = asyncio.new_event_loop(), Tarpit()
        thread = threading.Thread(target=loop.run_forever, daemon=True)
        thread.start()
        asyncio.run_coroutine_threadsafe(tarpit.serve(), loop).result(10)
        created = []
        reported: dict[int, int] = {}
        for number in range(40):
            body = {"url": f"https://127.0.0.1:{tarpit.port}/{number}", "events": ["document.ready"]}
            reply = self.client.post("/v1/webhooks", json=body)
            reported[reply.status_code] = reported.get(reply.status_code, 0) + 1
            if reply.is_success:
                created.append(reply.json()["id"])
        for number in range(5):
            self.client.post(DOCUMENTS.format("default"), json={"text": f"An event {number} {time.time()}."})
        try:
            yield reported
        finally:
            for webhook in created:
                self.client.delete(f"/v1/webhooks/{webhook}")
            loop.call_soon_threadsafe(loop.stop)

    def attack_with_half_open(self) -> AbstractContextManager[Any]:
        """Return an attack of 1,300 connections that send only the first bytes of a request without a key."""
        return attack_process(occupy_connections, self.service.url, b"POST /v1/search HTTP/1.1\r\nHost: ", 1_300)

    def attack_with_streams(self) -> AbstractContextManager[Any]:
        """Return an attack of 3,000 event streams of a document that is never ready."""
        created = self.client.post(DOCUMENTS.format("default"), json={"text": f"Never ready {time.time()}."}).json()
        time.sleep(3)
        asyncio.run(self.run_sql(("update document set status = 'queued' where tenant_id = $1 and id = $2",
                                 _decode_document_id(created["id"]))))  # fmt: skip
        path = f"{DOCUMENTS.format('default')}/{created['id']}/events"
        return attack_process(
            occupy_connections, self.service.url, build_request(self.key, path, None, "localhost"), 3_000
        )


def _decode_document_id(public: str) -> Any:
    from app.ids import decode_id

    return decode_id("doc", public)


def check_window(name: str, window: MeasuredWindow, reported: str, limit: float) -> AttackRow:
    """Compare the measurements of a window with the promises."""
    reasons = []
    if window.p95 > limit:
        reasons.append(f"p95 {window.p95 * 1000:.0f} ms is more than {limit * 1000:.0f}")
    if window.ready_seconds is None or window.ready_seconds > MAX_READY_SECONDS:
        reasons.append(f"the document was not ready in {MAX_READY_SECONDS:.0f} s")
    if window.failed_count:
        reasons.append(f"{window.failed_count} searches failed")
    return AttackRow(name, window, reported, reasons)


def run_attacks(service: RunningService, only: str | None) -> list[AttackRow]:
    """Prepare both tenants, then measure V without an attack and during each attack."""
    attacker, victim = _create_tenants(service)
    victim.store_documents()
    attacker.prepare()
    idle = [victim.watch(IDLE_SECONDS, uploads=False) for _ in range(IDLE_WINDOWS)]
    attacks: list[tuple[str, Callable[[], None] | None, Callable[[], AbstractContextManager[Any]]]] = [
        ("nothing", None, lambda: nullcontext({})),
        ("16 patterns, 30 at once", None, partial(attacker.attack_with_filters, 30)),
        ("16 patterns, 80 at once", None, partial(attacker.attack_with_filters, 80)),
        ("16 queries in 100 knowledge bases, 8 at once", None, attacker.attack_with_wide_searches),
        ("two texts of 1.5 MB", None, attacker.long_texts),
        ("40 webhooks into a tarpit", None, attacker.webhooks),
        ("1,300 half-open connections", None, attacker.attack_with_half_open),
        ("3,000 event streams", None, attacker.attack_with_streams),
        ("all knowledge bases of the quota", attacker.create_knowledge_bases, attacker.attack_all_knowledge_bases),
        ("8,000 additional knowledge bases", attacker.raise_quota, attacker.attack_all_knowledge_bases),
    ]
    rows = []
    for name, before, attack in attacks:
        if only is not None and only not in name:
            continue
        if before is not None:
            before()
        with attack() as reported:
            time.sleep(
                OPENING_SECONDS
                if attack in (attacker.attack_with_half_open, attacker.attack_with_streams)
                else SETTLE_SECONDS
            )
            window = victim.watch(WINDOW_SECONDS, uploads=True)
        idle.append(victim.watch(IDLE_SECONDS / 2, uploads=False))
        limit = max(MAX_TIMES_IDLE * statistics.median(item.p95 for item in idle[:IDLE_WINDOWS]), FLOOR_SECONDS)
        rows.append(check_window(name, window, json.dumps(reported), limit))
        print(format_row(rows[-1]), flush=True)
    usual = statistics.median(item.p95 for item in idle)
    print(f"V's searches without an attack: p95 {usual * 1000:.0f} ms (median of {len(idle)} windows)")
    return rows


def format_row(row: AttackRow) -> str:
    """Format a row of the table."""
    window = row.window
    ready = "-" if window.ready_seconds is None else f"{window.ready_seconds:.1f} s"
    verdict = "ok" if not row.reasons else "FAILED: " + "; ".join(row.reasons)
    p50, p95, longest = (1000 * item for item in (window.p50, window.p95, max(window.search_seconds)))
    felt = f"p50 {p50:6.0f}  p95 {p95:6.0f}  max {longest:6.0f} ms  ready {ready:>7}  5xx {window.failed_count:3}"
    return f"{row.name:<46} {felt}  attacker {row.attacker_replies}  {verdict}"


def _create_tenants(service: RunningService) -> tuple[NoisyTenant, Victim]:
    operator = {"Authorization": f"Bearer {(service.data_dir / 'operator-key').read_text().strip()}"}
    created = {}
    for name in ("attacker", "victim"):
        reply = httpx2.post(f"{service.url}/v1/tenants", json={"name": name}, headers=operator, timeout=30)
        reply.raise_for_status()
        created[name] = reply.json()
    attacker = created["attacker"]
    return NoisyTenant(service, attacker["api_key"]["key"], attacker["id"]), Victim(
        service, created["victim"]["api_key"]["key"]
    )


SETTINGS = MappingProxyType({"CARREL_WEBHOOK_ALLOW_PRIVATE": "127.0.0.0/8", "CARREL_TENANT_SEARCHES_PER_SECOND": "100"})


def main() -> None:
    """Print the table; exit with 1 if a promise is broken."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", help="run only the attacks whose names contain this text")
    options = parser.parse_args()
    exit_on_sigterm()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(SOFT_DESCRIPTORS, soft), hard))
    with embedding_endpoint() as endpoint, running_service(endpoint, settings=SETTINGS) as service:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        rows = run_attacks(service, options.only)
    failed = [row.name for row in rows if row.reasons]
    print(
        "FAILED: " + ", ".join(failed) if failed else f"all {len(rows)} attacks: every promise to the victim was kept"
    )
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
