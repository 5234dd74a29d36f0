"""Reranking by a local cross-encoder, over HTTP: the model reads query and text, and changes the order of results."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.inference.onnx_directory import LocalModelRefused
from harness.databases import DatabaseFactory
from harness.protocol_servers.embedding import EmbeddingServer
from harness.running_service import Tenant, build_settings, run_service
from tests.fixtures.service_warnings import warning_json
from tests.inference.rerank.cross_encoders import write_slow, write_tiny

# The search prefers short texts; the reranker prefers texts with many words of the query.
TEXTS = [
    "harbour harbour",
    "the harbour of the town is old",
    "the old harbour of the town has two piers and a lighthouse",
    "an invoice is paid within thirty days",
]
QUESTION = "old harbour two piers"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("models") / "tiny-reranker")


@pytest.fixture(scope="module")
def tenant(model: Path, make_database: DatabaseFactory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenant]:
    with EmbeddingServer() as embedding:
        settings = build_settings(
            tmp_path_factory.mktemp("local-reranking"),
            embedding=embedding.settings,
            rerank={"CARREL_RERANK_LOCAL": str(model)},
        )
        with run_service(settings, make_database()) as running:
            tenant = running.create_tenant()
            for number, text in enumerate(TEXTS):
                assert tenant.add_text(text, external_id=str(number))["status"] == "ready"
            yield tenant


def search(tenant: Tenant, kb: str = "default", **options: Any) -> dict[str, Any]:
    body = {"query": QUESTION, "strategy": "dense", **options}
    reply = tenant.admin.post(f"/v1/knowledge-bases/{kb}/search", json=body)
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    return found


def texts(found: dict[str, Any]) -> list[str]:
    return [result["text"] for result in found["results"]]


@pytest.mark.capability("rerank-local")
def test_local_rerank_orders_results_by_shared_words(tenant: Tenant) -> None:
    found = search(tenant, rerank=True)
    assert texts(found) == [TEXTS[2], TEXTS[1], TEXTS[0], TEXTS[3]]
    # The scores are sigmoids of 8 times the share of the query's words, less 4.
    assert [result["score"] for result in found["results"]] == pytest.approx([0.982, 0.5, 0.119, 0.018], abs=0.001)
    assert found["warnings"] == []


def test_local_rerank_off_leaves_order_and_scores_of_search(tenant: Tenant) -> None:
    plain = search(tenant)
    assert texts(plain)[0] != TEXTS[2]
    assert sorted(texts(plain)) == sorted(TEXTS)
    assert plain["results"] == search(tenant, rerank=False)["results"]


@pytest.mark.parametrize("strategy", ["dense", "lexical", "hybrid"])
def test_local_rerank_best_text_is_first_in_every_strategy(tenant: Tenant, strategy: str) -> None:
    assert texts(search(tenant, strategy=strategy, rerank=True, top_k=1)) == [TEXTS[2]]


def test_local_rerank_reads_the_query(tenant: Tenant) -> None:
    found = search(tenant, query="invoice paid thirty days", rerank=True, top_k=1)
    assert texts(found) == [TEXTS[3]]


def test_local_rerank_explained_search_has_its_time_and_scores(tenant: Tenant) -> None:
    plain, found = search(tenant, explain=True), search(tenant, explain=True, rerank=True)
    assert "rerank" in found["timings_ms"]
    assert "rerank" not in plain["timings_ms"]
    dense = {result["text"]: result["scores"]["dense"] for result in plain["results"]}
    assert {result["text"]: result["scores"]["dense"] for result in found["results"]} == dense
    assert found["degraded"] == []


def test_local_rerank_long_query_is_answered(tenant: Tenant) -> None:
    found = search(tenant, query=f"{QUESTION} " * 300, rerank=True)
    assert texts(found)[0] == TEXTS[2]
    assert found["warnings"] == []


def test_capabilities_name_directory_and_hash_of_local_reranker(tenant: Tenant) -> None:
    found = tenant.create_client("reader").get("/v1/capabilities").json()
    assert found["models"]["rerank"] is True
    name, _, digits = found["reranker"].partition("@")
    assert name == "tiny-reranker"
    assert len(digits) == 12
    assert str(tenant.service.settings.rerank.local) not in str(found)


def test_service_with_unusable_local_reranker_does_not_start(make_database: DatabaseFactory, tmp_path: Path) -> None:
    settings = build_settings(tmp_path / "data", rerank={"CARREL_RERANK_LOCAL": str(tmp_path / "missing")})
    with (
        pytest.raises(LocalModelRefused, match="missing is neither a directory nor an ONNX file"),
        run_service(settings, make_database()),
    ):
        pass


def test_late_local_reranker_is_left_out_with_warning(make_database: DatabaseFactory, tmp_path: Path) -> None:
    slow = write_slow(tmp_path / "slow", 2000)
    with EmbeddingServer() as embedding:
        settings = build_settings(
            tmp_path / "data", embedding=embedding.settings, rerank={"CARREL_RERANK_LOCAL": str(slow)}
        )
        with run_service(settings, make_database()) as running:
            tenant = running.create_tenant()
            body = {"name": "small", "chunking": {"max_tokens": 32}}
            tenant.admin.post("/v1/knowledge-bases", json=body).raise_for_status()
            paragraphs = [f"The old harbour number {number} has two piers and a lighthouse." for number in range(60)]
            assert tenant.add_text("\n\n".join(paragraphs), kb="small")["status"] == "ready"
            plain = search(tenant, "small", top_k=50)
            assert len(plain["results"]) > 40
            found = search(tenant, "small", top_k=50, rerank=True, explain=True, timeout_seconds=1.5)
            assert found["warnings"] == [
                warning_json("reranker_unavailable", "The reranker did not answer, so the results were not reranked.")
            ]
            assert found["degraded"] == [{"step": "rerank", "reason": "timeout"}]
            assert texts(found) == texts(plain)
            # The remaining pairs are not run, so the next search has the threads for itself.
            assert search(tenant, "small", top_k=50)["warnings"] == []
