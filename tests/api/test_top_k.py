"""First results of a search, which do not depend on ``top_k``: on several hundred chunks of the project's pages."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from harness.databases import DatabaseFactory
from harness.processes import wait_until_ingested
from harness.protocol_servers.embedding import EmbeddingServer
from harness.running_service import Tenant, build_settings, run_service

PAGES = Path(__file__).parents[2] / "docs" / "adr"
QUESTIONS = [
    "How is the weight of the dense retriever chosen?",
    "HNSW index of pgvector and its recall",
    "row-level security of tenants",
    "Which parser reads PDF tables?",
    "0011",
    "encoding of text files without a byte order mark",
    "the",
]
DEPTHS = (1, 5, 100, 150, 500)
# Behind the candidates of the first pass, the order may depend on the number of rows.
FIRST = 90


@pytest.fixture(scope="module")
def library(make_database: DatabaseFactory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenant]:
    """Two knowledge bases in small chunks: one with all pages, and one with every second page."""
    with EmbeddingServer() as embedding:
        settings = build_settings(tmp_path_factory.mktemp("library"), embedding=embedding.settings)
        with run_service(settings, make_database()) as running:
            tenant = running.create_tenant()
            for kb in ("pages", "even"):
                body = {"name": kb, "chunking": {"max_tokens": 60}}
                tenant.admin.post("/v1/knowledge-bases", json=body).raise_for_status()
            for number, page in enumerate(sorted(PAGES.glob("*.md"))):
                body = {"text": page.read_text("utf-8"), "title": page.stem, "metadata": {"even": number % 2 == 0}}
                for kb in ("pages", "even")[: 2 - number % 2]:
                    tenant.admin.post(f"/v1/knowledge-bases/{kb}/documents", json=body).raise_for_status()
            for kb in ("pages", "even"):
                wait_until_ingested(tenant.admin, kb)
            assert tenant.admin.get("/v1/knowledge-bases/pages").json()["chunk_count"] > 500
            yield tenant


def search(tenant: Tenant, **body: Any) -> list[tuple[str, float, float | None]]:
    reply = tenant.admin.post("/v1/search", json={"knowledge_bases": ["pages"], "timeout_seconds": 30, **body})
    assert reply.status_code == 200, reply.text
    return [(item["chunk_id"], item["score"], item["similarity"]) for item in reply.json()["results"]]


SETTINGS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "rrf": {"strategy_options": {"fusion": "rrf"}},
    "high dense weight": {"strategy_options": {"dense_weight": 0.9}},
    "dense": {"strategy": "dense"},
    "lexical": {"strategy": "lexical"},
    "filter": {"filter": {"even": True}},
    "threshold": {"score_threshold": 0.2},
    "two knowledge bases": {"knowledge_bases": ["pages", "even"]},
    "window": {"expand": "window"},
}


@pytest.mark.capability("search-stable-top")
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("question", QUESTIONS)
def test_search_first_results_do_not_depend_on_top_k(library: Tenant, question: str, setting: str) -> None:
    found = [search(library, query=question, top_k=depth, **SETTINGS[setting]) for depth in DEPTHS]
    for shorter, longer in pairwise(found):
        assert shorter[:FIRST] == longer[: len(shorter)][:FIRST]
    scores = [score for _, score, _ in found[-1]]
    assert scores == sorted(scores, reverse=True)
    assert len({chunk for chunk, _, _ in found[-1]}) == len(found[-1])


@pytest.mark.capability("talk-stable")
@pytest.mark.parametrize("question", QUESTIONS[:4])
def test_search_first_results_of_conversation_do_not_depend_on_top_k(library: Tenant, question: str) -> None:
    messages = [
        {"role": "user", "content": "How fast is a search in a collection of 100,000 chunks?"},
        {"role": "assistant", "content": "Some milliseconds."},
        {"role": "user", "content": question},
    ]
    found = [search(library, messages=messages, top_k=depth) for depth in DEPTHS]
    for shorter, longer in pairwise(found):
        assert shorter[:FIRST] == longer[: len(shorter)][:FIRST]


@pytest.mark.capability("search-cosine")
@pytest.mark.parametrize("question", QUESTIONS[:4])
def test_search_every_result_has_its_cosine(library: Tenant, question: str) -> None:
    """A result that only the lexical retriever found has the cosine that the dense retriever computes."""
    cosines = {chunk: score for chunk, score, _ in search(library, query=question, strategy="dense", top_k=500)}
    for chunk, _, similarity in search(library, query=question, top_k=100):
        assert chunk not in cosines or similarity == pytest.approx(cosines[chunk], abs=2e-6)
