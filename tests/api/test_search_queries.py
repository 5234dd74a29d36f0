"""Queries of a search over HTTP: words, vectors and images, and refused values."""

import base64
import io
import math
from collections.abc import Iterator
from typing import Any

import pytest
from PIL import Image

from app.retrieval.plan import QUERY_TRUNCATED
from app.retrieval.retrievers.terms import QUERY_TERMS_TRUNCATED
from harness.databases import DatabaseFactory
from harness.protocol_servers.embedding import EmbeddingServer
from harness.running_service import Tenant, build_settings, run_service
from harness.word_vectors import compute_text_vector
from tests.api.problems import assert_problem
from tests.fixtures.service_warnings import warning_json
from tests.ingestion.illustrated import square

KB_SEARCH = "/v1/knowledge-bases/default/search"
TEXTS = ("a red bicycle", "a blue boat", "black tea in the morning")
LEFT_OUT = warning_json("image_queries_skipped", "Image queries were skipped: the embedding model accepts text only.")


def refused_query(location: str) -> dict[str, str]:
    message = f"The embedding model rejected {location}: the dense retriever searched without it."
    return warning_json("query_not_embedded", message)


@pytest.fixture(scope="module")
def embedding() -> Iterator[EmbeddingServer]:
    """Model that embeds images: an image of one colour as the name of the colour, and no green image."""
    with EmbeddingServer(dimensions=64, image_form="input", refused_word="green") as server:
        yield server


@pytest.fixture(scope="module")
def seeing(
    embedding: EmbeddingServer, make_database: DatabaseFactory, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Tenant]:
    """Tenant of a service whose model embeds images."""
    settings = build_settings(
        tmp_path_factory.mktemp("seeing"),
        embedding={
            "CARREL_EMBEDDING_BASE_URL": embedding.base_url,
            "CARREL_EMBEDDING_MODEL": "test-model",
            "CARREL_EMBEDDING_DIMENSIONS": 64,
            "CARREL_EMBEDDING_IMAGES": "input",
        },
    )
    with run_service(settings, make_database()) as service:
        tenant = service.create_tenant()
        for text in TEXTS:
            tenant.add_text(text)
        yield tenant


@pytest.fixture(scope="module")
def blind(seeing: Tenant, service: Any) -> Tenant:
    """Tenant of a service whose model embeds no images."""
    tenant: Tenant = service.create_tenant("blind")
    tenant.add_text(TEXTS[0])
    return tenant


def image(colour: str) -> dict[str, str]:
    return {"image": base64.b64encode(square(colour, (40, 40))).decode()}


def vector(text: str, factor: float = 1.0) -> list[float]:
    return [number * factor for number in compute_text_vector(text, 64)]


def found(tenant: Tenant, **body: Any) -> list[str]:
    """Return the texts of the results, best first."""
    reply = tenant.admin.post(KB_SEARCH, json=body)
    assert reply.status_code == 200, reply.text
    return [result["text"] for result in reply.json()["results"]]


@pytest.mark.capability("search-vector-query")
@pytest.mark.parametrize("factor", [1.0, 1e-200, 1e200])
def test_search_vector_finds_same_as_its_text(seeing: Tenant, factor: float) -> None:
    given = {"vector": vector("a blue boat", factor)}
    reply = seeing.admin.post(KB_SEARCH, json={"queries": [given], "strategy": "dense"}).json()
    words = seeing.admin.post(KB_SEARCH, json={"query": "a blue boat", "strategy": "dense"}).json()
    assert reply["results"] == words["results"]
    assert (reply["queries"], reply["warnings"]) == ([], [])


def test_search_vector_with_text_searches_words_too(seeing: Tenant) -> None:
    body = {"queries": [{"vector": vector("a blue boat"), "text": "tea"}], "top_k": 2}
    reply = seeing.admin.post(KB_SEARCH, json=body).json()
    assert reply["queries"] == ["tea"]
    assert {result["text"] for result in reply["results"]} == {TEXTS[1], TEXTS[2]}
    assert found(seeing, **body, strategy="lexical") == [TEXTS[2]]


@pytest.mark.capability("search-image-query")
def test_search_image_finds_matching_text(seeing: Tenant) -> None:
    assert found(seeing, queries=[image("red")], top_k=1) == [TEXTS[0]]
    both = found(seeing, query="boat", queries=[image("red")], top_k=2)
    assert set(both) == {TEXTS[0], TEXTS[1]}


def test_search_image_without_image_model_is_skipped_with_warning(blind: Tenant) -> None:
    reply = blind.admin.post(KB_SEARCH, json={"queries": [image("red"), "bicycle"]})
    assert (reply.status_code, reply.json()["warnings"]) == (200, [LEFT_OUT])
    assert [result["text"] for result in reply.json()["results"]] == [TEXTS[0]]


@pytest.mark.capability("search-image-alone")
@pytest.mark.parametrize("path", [KB_SEARCH, "/v1/search"])
def test_search_image_alone_without_image_model_finds_nothing(blind: Tenant, path: str) -> None:
    for queries in ([image("red")], [image("red"), image("green")]):
        reply = blind.admin.post(path, json={"queries": queries})
        assert (reply.status_code, reply.json()["results"]) == (200, [])
        assert [warning["code"] for warning in reply.json()["warnings"]] == ["image_queries_skipped"]


@pytest.mark.capability("search-image-formats")
@pytest.mark.parametrize("name", ["PNG", "JPEG", "GIF", "BMP", "WEBP"])
def test_search_image_of_every_format_finds_matching_text(seeing: Tenant, name: str) -> None:
    data = io.BytesIO()
    Image.new("RGB", (64, 64), "red").save(data, name)
    query = {"image": base64.b64encode(data.getvalue()).decode()}
    assert found(seeing, queries=[query], top_k=1) == [TEXTS[0]]


@pytest.mark.parametrize("start", [b"GIF88a", b"BM1234abcd", b"RIFF1234WAVE", b"%PDF-1.7", b"II*\0"])
def test_search_image_of_unknown_format_is_422(seeing: Tenant, start: bytes) -> None:
    query = {"image": base64.b64encode(start + bytes(40)).decode()}
    refused = assert_problem(seeing.admin.post(KB_SEARCH, json={"queries": [query]}), 422, "invalid")
    assert refused["errors"][0]["loc"] == ["body", "queries", 0, "image"]


@pytest.mark.capability("search-text-block")
def test_search_query_block_of_text_is_the_same_as_text(blind: Tenant) -> None:
    for text in ("boat", "  tea ", "red bicycle"):
        replies = [blind.admin.post(KB_SEARCH, json={"queries": [query]}) for query in (text, {"text": text})]
        first, second = (reply.json() for reply in replies)
        assert (first["queries"], first["results"]) == (second["queries"], second["results"])
    mixed = blind.admin.post(KB_SEARCH, json={"queries": ["boat", {"text": "tea"}, image("red")]})
    assert mixed.json()["queries"] == ["boat", "tea"]
    for wrong in ({"text": ""}, {"text": " "}, {"text": 5}, {"text": "a", "colour": "red"}, {}, {"words": "a"}):
        assert_problem(blind.admin.post(KB_SEARCH, json={"queries": [wrong]}), 422, "invalid")


def test_search_lexical_strategy_skips_queries_without_text(seeing: Tenant) -> None:
    body = {"queries": [image("red"), {"vector": vector("boat")}, "tea"], "strategy": "lexical"}
    reply = seeing.admin.post(KB_SEARCH, json=body).json()
    assert [result["text"] for result in reply["results"]] == [TEXTS[2]]
    assert [warning["code"] for warning in reply["warnings"]] == ["image_queries_skipped", "textless_queries_skipped"]
    assert_problem(seeing.admin.post(KB_SEARCH, json={**body, "queries": body["queries"][:2]}), 422, "invalid")


@pytest.mark.parametrize("refused", ["green", image("green")], ids=["text", "picture"])
@pytest.mark.parametrize("strategy", ["dense", "hybrid"])
def test_search_query_refused_by_model_is_lexical_only(seeing: Tenant, refused: Any, strategy: str) -> None:
    body = {"queries": ["boat", refused, image("red")], "top_k": 2, "strategy": strategy}
    reply = seeing.admin.post(KB_SEARCH, json=body)
    assert (reply.status_code, reply.json()["warnings"]) == (200, [refused_query("queries.1")])
    assert {result["text"] for result in reply.json()["results"]} == {TEXTS[0], TEXTS[1]}
    assert all(result["similarity"] is not None for result in reply.json()["results"])
    assert 'degraded;desc="dense: embedding_rejected"' in reply.headers["Server-Timing"]


def test_search_threshold_ignores_hits_of_refused_query(seeing: Tenant) -> None:
    """The similarity to the refused query is unknown.

    A low similarity to the other query is no reason to drop a hit.
    """
    body = {"queries": ["boat", "green tea"], "strategy": "lexical", "score_threshold": 0.5}
    reply = seeing.admin.post(KB_SEARCH, json=body).json()
    assert reply["warnings"] == [
        refused_query("queries.1"),
        warning_json("threshold_not_applied", "score_threshold was not applied to results without a known similarity."),
    ]
    similarity = {result["text"]: result["similarity"] for result in reply["results"]}
    assert similarity.pop(TEXTS[2]) is None
    assert similarity.keys() == {TEXTS[1]}


def test_search_only_refused_query_is_422(seeing: Tenant) -> None:
    for body, loc in (
        ({"query": "green", "strategy": "dense"}, ["body", "query"]),
        ({"queries": [image("green")]}, ["body", "queries", 0]),
        ({"queries": [image("green"), "green"], "strategy": "dense"}, ["body", "queries"]),
    ):
        told = assert_problem(seeing.admin.post(KB_SEARCH, json=body), 422, "invalid")["errors"]
        assert [one["loc"] for one in told] == [loc]
    reply = seeing.admin.post(KB_SEARCH, json={"query": "green tea"}).json()
    assert ([result["text"] for result in reply["results"]], reply["warnings"]) == (
        [TEXTS[2]],
        [refused_query("query")],
    )


@pytest.mark.parametrize(
    ("query", "loc"),
    [
        ({"vector": [1.0, 2.0]}, ["body", "queries", 1, "vector"]),
        ({"vector": [0.0] * 64}, ["body", "queries", 1, "vector"]),
        ({"vector": []}, ["body", "queries", 1]),
        ({"vector": [1.0] * 4001}, ["body", "queries", 1]),
        ({"vector": [None] * 64}, ["body", "queries", 1]),
        ({"vector": ["NaN"] * 64}, ["body", "queries", 1]),
        ({"vector": [10**400] * 64}, ["body", "queries", 1]),
        ({"vector": [1.0] * 64, "text": "\0"}, ["body", "queries", 1]),
        ({"vector": [1.0] * 64, "text": " "}, ["body", "queries", 1]),
        ({"image": "\u00e9"}, ["body", "queries", 1, "image"]),
        ({"words": "no vector"}, ["body", "queries", 1]),
        ({"image": "a b"}, ["body", "queries", 1, "image"]),
        ({"image": base64.b64encode(b"GIF88a").decode()}, ["body", "queries", 1, "image"]),
        ({"image": ""}, ["body", "queries", 1]),
        ({}, ["body", "queries", 1]),
        (7, ["body", "queries", 1]),
    ],
    ids=str,
)
def test_search_invalid_query_is_422_with_location(seeing: Tenant, query: Any, loc: list[Any]) -> None:
    refused = assert_problem(seeing.admin.post(KB_SEARCH, json={"queries": ["tea", query]}), 422, "invalid")
    assert all(error["loc"][: len(loc)] == loc for error in refused["errors"])


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("", [["body", "queries", 0]]),
        (7, [["body", "queries", 0]]),
        (None, [["body", "queries", 0]]),
        ({}, [["body", "queries", 0, "vector"]]),
        ({"vector": []}, [["body", "queries", 0, "vector"]]),
        ({"vector": [1.0, "x"]}, [["body", "queries", 0, "vector", 1]]),
        ({"vector": [1.0], "text": ""}, [["body", "queries", 0, "text"]]),
        ({"vector": [1.0], "image": "x"}, [["body", "queries", 0, "image"]]),
        ({"image": None}, [["body", "queries", 0, "image"]]),
        ({"image": "A" * 12_000_000}, [["body", "queries", 0, "image"]]),
    ],
    ids=lambda value: str(value)[:40],
)
def test_search_invalid_query_lists_only_its_errors(blind: Tenant, query: Any, told: list[Any]) -> None:
    refused = assert_problem(blind.admin.post(KB_SEARCH, json={"queries": [query]}), 422, "invalid")
    assert [error["loc"] for error in refused["errors"]] == told


@pytest.mark.parametrize("number", ["1e999", "NaN", "-Infinity"])
def test_search_invalid_number_in_vector_is_422(seeing: Tenant, number: str) -> None:
    body = f'{{"queries": [{{"vector": [{", ".join([number] * 64)}]}}]}}'
    reply = seeing.admin.post(KB_SEARCH, content=body, headers={"content-type": "application/json"})
    assert_problem(reply, 422)


@pytest.mark.capability("search-return-vectors")
def test_search_return_vectors_includes_stored_vectors(seeing: Tenant) -> None:
    body = {"query": "red bicycle", "return_vectors": True, "strategy": "dense", "top_k": 1}
    (result,) = seeing.admin.post(KB_SEARCH, json=body).json()["results"]
    stored = result["vector"]
    assert len(stored) == 64
    assert math.hypot(*stored) == pytest.approx(1, abs=1e-3)
    wanted = vector("red bicycle")
    cosine = math.fsum(a * b for a, b in zip(stored, wanted, strict=True)) / math.hypot(*wanted)
    assert cosine == pytest.approx(result["similarity"], abs=2e-3)
    (again,) = seeing.admin.post(KB_SEARCH, json={"queries": [{"vector": stored}], "top_k": 1}).json()["results"]
    assert again["chunk_id"] == result["chunk_id"]
    assert "vector" not in again


@pytest.mark.parametrize(
    ("body", "places"),
    [
        ({"queries": [5]}, [["body", "queries", 0]]),
        ({"queries": ["x", ""]}, [["body", "queries", 1]]),
        ({"query": "x", "transformers": [5]}, [["body", "transformers", 0]]),
        ({"query": "x", "routing": True}, [["body", "routing"]]),
    ],
)
def test_search_error_location_is_callers_field(blind: Tenant, body: dict[str, Any], places: list[list[Any]]) -> None:
    told = assert_problem(blind.admin.post("/v1/search", json=body), 422, "invalid")["errors"]
    assert [one["loc"] for one in told if "Query" not in str(one["loc"])][:1] == places
    assert "function-" not in str(told)
    assert "literal" not in str(told)


def test_search_with_too_many_terms_has_warning(blind: Tenant) -> None:
    for name in ("second", "third"):
        assert blind.admin.post("/v1/knowledge-bases", json={"name": name}).status_code == 201
    bicycle = " bicycle"
    long = "".join(map(chr, range(0x4E00, 0x4E00 + 7990)))
    queries = [long[at:] + long[:at] + bicycle for at in range(16)]
    body: dict[str, Any] = {"knowledge_bases": ["default", "second", "third"], "queries": queries}
    body |= {"strategy": "lexical", "timeout_seconds": 60}  # queries of the maximum length
    reply = blind.admin.post("/v1/search", json=body)
    assert (reply.status_code, reply.json()["warnings"]) == (200, [QUERY_TERMS_TRUNCATED.to_json()])
    assert [result["text"] for result in reply.json()["results"]] == [TEXTS[0]]
    one = blind.admin.post("/v1/search", json=body | {"queries": queries[:1]}).json()
    assert (len(one["results"]), one["warnings"]) == (1, [])


def test_search_with_cut_query_has_warning(blind: Tenant) -> None:
    for query, told in ((" word" * 1600, []), ("bicycle" + " word" * 1700, [QUERY_TRUNCATED.to_json()])):
        reply = blind.admin.post("/v1/search", json={"query": query, "strategy": "lexical"}).json()
        assert reply["warnings"] == told
        assert query.endswith(reply["queries"][0])


def test_search_with_unavailable_model_skips_images_with_cached_query(
    seeing: Tenant, embedding: EmbeddingServer
) -> None:
    """The last test of this module, because its failures open the circuit breaker of the model."""
    known = found(seeing, query="boat", strategy="dense")
    embedding.fail(500, times=None)
    reply = seeing.admin.post(KB_SEARCH, json={"queries": ["boat", image("red")], "strategy": "dense"}).json()
    assert [result["text"] for result in reply["results"]] == known
    assert reply["warnings"] == [
        warning_json("embedding_unavailable", "The embedding model is not answering: image queries were skipped.")
    ]
