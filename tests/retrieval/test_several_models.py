"""Several embedding models: each knowledge base has its own in ingestion, preview and search."""

import base64
import itertools
import json
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from app.settings import Settings
from harness.databases import DatabaseFactory
from harness.protocol_servers.embedding import EmbeddingServer
from harness.running_service import Service, Tenant, build_settings, run_service
from harness.word_vectors import compute_text_vector
from proofs.isolation.tenants import get_operator_tenant
from tests.api.problems import assert_problem
from tests.fixtures.service_warnings import warning_json
from tests.ingestion.illustrated import square

LARGE, SMALL = 64, 24
KEY = "key-of-the-small-model"
RECOVERY_SECONDS = 30.0
NUMBERS = itertools.count()
HERON, OTTER, MOSS = "the heron waits in the reeds", "the otter dives at night", "moss grows on the heron stone"
VECTORS = "only queries with a provided vector were searched"
SENTENCES = "The heron waits in the reeds. It is a patient bird. Bicycles need two wheels. A chain drives one of them."
SAME_NAME = {"model": "sized", "base_url": "http://127.0.0.1:9/v1"}


@dataclass(frozen=True)
class Models:
    """A service with two available models and one of two sizes that is down, and a tenant that uses both."""

    service: Service
    large: EmbeddingServer
    small: EmbeddingServer
    tenant: Tenant

    def search(self, query: str, **body: Any) -> dict[str, Any]:
        """Search in both knowledge bases."""
        reply = self.tenant.admin.post("/v1/search", json={"query": query, **body})
        assert reply.status_code == 200, reply.text
        answer: dict[str, Any] = reply.json()
        return answer


def settings(data: Path, default: EmbeddingServer, *others: dict[str, Any]) -> Settings:
    """Return settings as from the environment: the list of models, and the key that a model names."""
    with pytest.MonkeyPatch.context() as patch:
        if any("api_key_env" in other for other in others):
            patch.setenv("CARREL_SMALL_MODEL_KEY", KEY)
        patch.setenv("CARREL_EMBEDDING_MODELS", json.dumps(others))
        embedding = {f"CARREL_EMBEDDING_{name.upper()}": value for name, value in endpoint(default).items()}
        if default.api_key is not None:
            embedding["CARREL_EMBEDDING_API_KEY"] = default.api_key
        return build_settings(data, embedding=embedding, parser={"CARREL_PARSER_PROCESSES": 1})


def endpoint(server: EmbeddingServer) -> dict[str, Any]:
    made = {"model": f"words-{server.dimensions}", "base_url": server.base_url, "dimensions": server.dimensions}
    return made if server.image_form is None else {**made, "max_tokens": 256, "images": server.image_form}


def small_endpoint(server: EmbeddingServer) -> dict[str, Any]:
    return {**endpoint(server), "api_key_env": "CARREL_SMALL_MODEL_KEY"}


@pytest.fixture(scope="module")
def models(make_database: DatabaseFactory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Models]:
    with (
        EmbeddingServer(dimensions=LARGE) as large,
        EmbeddingServer(dimensions=SMALL, api_key=KEY, image_form="input") as small,
    ):
        sizes = [{**SAME_NAME, "dimensions": dimensions} for dimensions in (16, 48)]
        made = settings(tmp_path_factory.mktemp("models"), large, small_endpoint(small), *sizes)
        with run_service(made, make_database()) as service:
            tenant = service.create_tenant()
            new_kb(tenant.admin, "second", model=f"words-{SMALL}").raise_for_status()
            for text, kb in ((HERON, "default"), (OTTER, "second"), (MOSS, "second")):
                assert tenant.add_text(text, kb=kb)["status"] == "ready"
            yield Models(service, large, small, tenant)


@pytest.fixture(autouse=True)
def _healthy(models: Models) -> Iterator[None]:
    """Recovery of the service before each test: after a failure it waits between attempts."""
    end = time.monotonic() + RECOVERY_SECONDS
    while models.search(fresh())["warnings"]:
        assert time.monotonic() < end, "it never recovered"
        time.sleep(0.1)
    for server in (models.large, models.small):
        server.reset()
    yield
    for server in (models.large, models.small):
        server.reset()


def fresh() -> str:
    """Return a new question, so that no vector of it is cached."""
    return f"heron {next(NUMBERS)}"


def new_kb(
    client: httpx2.Client, name: str, *, chunking: dict[str, Any] | None = None, **embedding: Any
) -> httpx2.Response:
    body = {"name": name, "embedding": embedding, **({"chunking": chunking} if chunking else {})}
    return client.post("/v1/knowledge-bases", json=body)


def similarities(answer: dict[str, Any]) -> dict[str, float | None]:
    return {result["text"]: result["similarity"] for result in answer["results"]}


def cosine(query: str, text: str, dimensions: int) -> Any:
    """Return the cosine of query and text in the model of this dimension."""
    one, other = compute_text_vector(query, dimensions), compute_text_vector(text, dimensions)
    product = math.fsum(a * b for a, b in zip(one, other, strict=True))
    return pytest.approx(product / math.hypot(*one) / math.hypot(*other), abs=2e-3)  # half precision


def inputs(server: EmbeddingServer) -> Sequence[str]:
    return [text for request in server.received for text in request.inputs]


@pytest.mark.capability("model-several")
def test_capabilities_list_models_and_knowledge_bases_name_theirs(models: Models) -> None:
    told = models.tenant.admin.get("/v1/capabilities").json()["embedding_models"]
    assert [
        (one["model"], one["dimensions"], one["max_tokens"], one["multimodal"], one["default"]) for one in told
    ] == [
        ("words-64", LARGE, 8191, False, True),
        ("words-24", SMALL, 256, True, False),
        ("sized", 16, 8191, False, False),
        ("sized", 48, 8191, False, False),
    ]
    for kb, dimensions in (("default", LARGE), ("second", SMALL)):
        shown = models.tenant.admin.get(f"/v1/knowledge-bases/{kb}").json()
        assert shown["embedding"] == {"model": f"words-{dimensions}", "dimensions": dimensions}
        assert shown["index"]["problem"] is None


@pytest.mark.parametrize(("kb", "dimensions", "text"), [("default", LARGE, HERON), ("second", SMALL, MOSS)])
def test_search_one_knowledge_base_calls_only_its_model(models: Models, kb: str, dimensions: int, text: str) -> None:
    query = fresh()
    answer = models.search(query, knowledge_bases=[kb], strategy="dense", top_k=1)
    assert similarities(answer) == {text: cosine(query, text, dimensions)}
    asked, other = (models.large, models.small) if dimensions == LARGE else (models.small, models.large)
    assert (inputs(asked), inputs(other)) == ([query], [])
    assert answer["results"][0]["score"] == answer["results"][0]["similarity"]


@pytest.mark.capability("sources-models")
@pytest.mark.parametrize("strategy", ["hybrid", "dense"])
def test_search_two_knowledge_bases_calls_each_model_once(models: Models, strategy: str) -> None:
    query = fresh()
    answer = models.search(query, strategy=strategy)
    assert similarities(answer) == {
        HERON: cosine(query, HERON, LARGE),
        MOSS: cosine(query, MOSS, SMALL),
        OTTER: cosine(query, OTTER, SMALL),
    }
    assert (inputs(models.large), inputs(models.small), answer["warnings"]) == ([query], [query], [])
    # The best hits of both models rank alike, whatever their cosines are.
    if strategy == "dense":
        assert [result["score"] for result in answer["results"]] == [1.0, 1.0, 0.0]
    models.search(query, strategy=strategy)
    assert (models.large.request_count, models.small.request_count) == (1, 1)


def test_threshold_compares_with_cosine_of_each_model(models: Models) -> None:
    query = fresh()
    known = similarities(models.search(query))
    for text, similarity in known.items():
        assert similarity is not None
        kept = similarities(models.search(query, score_threshold=similarity))
        assert kept == {one: other for one, other in known.items() if other is not None and other >= similarity}, text


@pytest.mark.parametrize("dimensions", [LARGE, SMALL])
def test_provided_vector_is_searched_if_its_dimension_fits(models: Models, dimensions: int) -> None:
    body = {"queries": [{"vector": compute_text_vector("otter", dimensions)}], "strategy": "dense"}
    reply = models.tenant.admin.post("/v1/search", json=body)
    found = {HERON} if dimensions == LARGE else {MOSS, OTTER}
    assert (set(similarities(reply.json())), models.large.request_count + models.small.request_count) == (found, 0)
    assert reply.json()["warnings"] == [left_out(dimensions)]


def left_out(dimensions: int) -> dict[str, str]:
    """Return the warning about vectors that do not fit the other knowledge base."""
    other, has = ("default", LARGE) if dimensions == SMALL else ("second", SMALL)
    message = f"Query vectors of {dimensions} dimensions were skipped in {other!r}: its index has {has}."
    return warning_json("query_dimensions_mismatch", message)


def test_text_of_vector_with_other_dimension_is_searched(models: Models) -> None:
    body = {"queries": [{"vector": compute_text_vector("dives", LARGE), "text": "otter dives"}], "top_k": 3}
    answer = models.tenant.admin.post("/v1/search", json=body).json()
    assert set(similarities(answer)) == {HERON, OTTER}
    assert answer["warnings"] == [left_out(LARGE)]
    by_words = models.tenant.admin.post("/v1/search", json={**body, "strategy": "lexical"}).json()
    assert (set(similarities(by_words)), by_words["warnings"]) == ({OTTER}, [])


def test_knowledge_bases_of_other_dimension_are_warned(models: Models) -> None:
    queries = [{"vector": compute_text_vector("otter", size)} for size in (SMALL, LARGE, SMALL)]
    together = models.tenant.admin.post("/v1/search", json={"queries": [*queries, fresh()], "strategy": "dense"})
    assert together.json()["warnings"] == [left_out(SMALL), left_out(LARGE)]
    alone = {"queries": queries[:1], "knowledge_bases": ["second"]}
    assert models.tenant.admin.post("/v1/search", json=alone).json()["warnings"] == []


def test_shared_knowledge_base_is_named_separately_in_warning(models: Models) -> None:
    """A tenant's knowledge base of the same name has another model: the warning names the shared one."""
    operator = get_operator_tenant(models.service)
    new_kb(operator.admin, "second", model=f"words-{LARGE}").raise_for_status()
    try:
        queries = [{"vector": compute_text_vector("otter", SMALL)}]
        body = {"queries": queries, "knowledge_bases": ["second"], "strategy": "dense"}
        message = f"Query vectors of {SMALL} dimensions were skipped in the shared 'second': its index has {LARGE}."
        told = warning_json("query_dimensions_mismatch", message)
        assert models.tenant.admin.post("/v1/search", json=body).json()["warnings"] == [told]
        picture = {"image": base64.b64encode(square("red", (40, 40))).decode()}
        body = {"queries": [picture, fresh()], "knowledge_bases": ["second"]}
        message = "Image queries were skipped in the shared 'second': its embedding model accepts text only."
        told = warning_json("image_queries_skipped", message)
        assert models.tenant.admin.post("/v1/search", json=body).json()["warnings"] == [told]
        models.large.fail(503, times=None)
        answer = models.search(fresh(), knowledge_bases=["second"])
        assert answer["warnings"] == [
            warning_json(
                "embedding_unavailable",
                f"The embedding model 'words-{LARGE}' is not answering: "
                "only the lexical retriever was used in the shared 'second'.",
            )
        ]
    finally:
        operator.admin.delete("/v1/knowledge-bases/second").raise_for_status()


@pytest.mark.parametrize(("dimensions", "searched"), [(SMALL, "nothing was searched"), (LARGE, VECTORS)])
def test_warning_of_unavailable_model_names_searched_queries(models: Models, dimensions: int, searched: str) -> None:
    models.large.fail(503, times=None)
    queries = [fresh(), {"vector": compute_text_vector("otter", dimensions)}]
    answer = models.tenant.admin.post("/v1/search", json={"queries": queries, "strategy": "dense"}).json()
    told = warning_json(
        "embedding_unavailable", f"The embedding model 'words-{LARGE}' is not answering: {searched} in 'default'."
    )
    assert answer["warnings"] == [left_out(dimensions), told]


def test_word_hits_of_vector_with_other_dimension_ignore_threshold(models: Models) -> None:
    """The similarity of these words is unknown in the second knowledge base. The other query does not replace it."""
    queries = [{"vector": compute_text_vector("dives", LARGE), "text": "otter"}, fresh()]
    body = {
        "queries": queries,
        "strategy": "lexical",
        "score_threshold": 0.99,
        "knowledge_bases": ["default", "second"],
    }
    answer = models.tenant.admin.post("/v1/search", json=body).json()
    assert similarities(answer) == {OTTER: None}


def test_image_is_searched_with_models_that_accept_images(models: Models) -> None:
    picture = {"image": base64.b64encode(square("red", (40, 40))).decode()}
    answer = models.tenant.admin.post("/v1/search", json={"queries": [picture, "reeds"], "top_k": 3}).json()
    assert answer["warnings"] == [
        warning_json(
            "image_queries_skipped", "Image queries were skipped in 'default': its embedding model accepts text only."
        )
    ]
    assert similarities(answer)[MOSS] is not None
    assert (inputs(models.large), sorted(inputs(models.small))) == (["reeds"], ["red", "reeds"])
    body = {"queries": [picture], "knowledge_bases": ["default"]}
    alone = models.tenant.admin.post("/v1/search", json=body)
    assert (alone.status_code, alone.json()["results"]) == (200, [])
    assert [warning["code"] for warning in alone.json()["warnings"]] == ["image_queries_skipped"]


def test_unavailable_model_leaves_other_model_complete(models: Models) -> None:
    models.small.fail(503, times=None)
    query = fresh()
    answer = models.search(query)
    assert similarities(answer) == {HERON: cosine(query, HERON, LARGE), MOSS: None}
    assert answer["warnings"] == [
        warning_json(
            "embedding_unavailable",
            "The embedding model 'words-24' is not answering: only the lexical retriever was used in 'second'.",
        )
    ]


def test_dense_search_continues_with_available_model(models: Models) -> None:
    models.small.fail(503, times=None)
    query = fresh()
    answer = models.search(query, strategy="dense")
    assert similarities(answer) == {HERON: cosine(query, HERON, LARGE)}
    assert answer["results"][0]["score"] == answer["results"][0]["similarity"]
    assert answer["warnings"] == [
        warning_json(
            "embedding_unavailable",
            "The embedding model 'words-24' is not answering: nothing was searched in 'second'.",
        )
    ]
    models.large.fail(503, times=None)
    assert_problem(
        models.tenant.admin.post("/v1/search", json={"query": fresh(), "strategy": "dense"}), 503, "search_unavailable"
    )


def test_unavailable_model_similarities_are_unknown(models: Models) -> None:
    models.large.fail(503, times=None)
    query = fresh()
    answer = models.search(query, strategy="lexical", score_threshold=-1.0)
    assert similarities(answer) == {HERON: None, MOSS: cosine(query, MOSS, SMALL)}
    assert answer["warnings"][0] == warning_json(
        "embedding_unavailable",
        "The embedding model 'words-64' is not answering: similarities are unknown in 'default'.",
    )


@pytest.mark.capability("model-unknown")
@pytest.mark.parametrize(
    ("embedding", "loc", "said"),
    [
        ({"model": "unheard-of"}, "model", "The embedding models are: words-64, words-24, sized."),
        ({"model": "words-24", "dimensions": 64}, "dimensions", "words-24 has 24 dimensions."),
        ({"model": "sized", "dimensions": 32}, "dimensions", "sized has 16 or 48 dimensions."),
        ({"dimensions": 24}, "dimensions", "words-64 has 64 dimensions."),
    ],
)
def test_knowledge_base_with_unknown_model_is_422(models: Models, embedding: Any, loc: str, said: str) -> None:
    refused = assert_problem(new_kb(models.tenant.admin, "refused", **embedding), 422, "invalid")
    assert refused["errors"] == [{"loc": ["body", "embedding", loc], "msg": said}]


@pytest.mark.parametrize(("asked", "made"), [(None, 16), (16, 16), (48, 48)])
def test_model_in_two_dimensions_defaults_to_the_first(models: Models, asked: int | None, made: int) -> None:
    tenant = models.service.create_tenant()
    reply = new_kb(tenant.admin, "sized", model="sized", dimensions=asked)
    assert (reply.status_code, reply.json()["embedding"]) == (201, {"model": "sized", "dimensions": made})


@pytest.mark.parametrize(("model", "most"), [("words-24", 254), ("words-64", 8189)])
def test_chunk_size_limit_depends_on_model(models: Models, model: str, most: int) -> None:
    tenant = models.service.create_tenant()
    refused = assert_problem(
        new_kb(tenant.admin, "long", model=model, chunking={"max_tokens": most + 1}), 422, "invalid"
    )
    assert refused["errors"] == [
        {
            "loc": ["body", "chunking", "max_tokens"],
            "msg": f"The embedding model reads at most {most} tokens of a chunk. Lower max_tokens.",
        }
    ]
    assert new_kb(tenant.admin, "long", model=model, chunking={"max_tokens": most}).status_code == 201


def test_chunker_sentences_are_embedded_by_own_model(models: Models) -> None:
    tenant = models.service.create_tenant()
    chunking = {"strategy": "semantic", "max_tokens": 32, "overlap_tokens": 0, "options": {"min_tokens": 0}}
    new_kb(tenant.admin, "topics", model="words-24", chunking=chunking).raise_for_status()
    assert tenant.add_text(SENTENCES, kb="topics")["status"] == "ready"
    assert any("patient" in text for text in inputs(models.small))
    stored = models.small.request_count
    body = {"text": SENTENCES, "knowledge_base": "topics"}
    previewed = tenant.admin.post("/v1/preview", json=body)
    assert (previewed.status_code, models.small.request_count > stored, models.large.request_count) == (200, True, 0)
    by_default = tenant.admin.post("/v1/preview", json={"text": SENTENCES, "chunking": chunking})
    assert (by_default.status_code, models.large.request_count > 0) == (200, True)


def test_usage_is_recorded_per_model(models: Models) -> None:
    tenant = models.service.create_tenant()
    new_kb(tenant.admin, "second", model="words-24").raise_for_status()
    tenant.add_text(HERON)
    tenant.add_text(OTTER, kb="second")
    assert (inputs(models.large), inputs(models.small)) == ([HERON], [OTTER])


def test_changed_default_model_leaves_knowledge_bases(
    models: Models, make_database: DatabaseFactory, tmp_path: Path
) -> None:
    """A knowledge base whose model is removed is searched by words, and refuses operations that need the model."""
    urls = make_database()
    with run_service(settings(tmp_path, models.large, small_endpoint(models.small)), urls) as service:
        tenant = service.create_tenant()
        tenant.add_text(HERON)
    with run_service(settings(tmp_path, models.small, endpoint(models.large)), urls) as service:
        swapped = Tenant(service, tenant.id, tenant.key, service.create_client(tenant.key))
        assert new_kb(swapped.admin, "new").json()["embedding"]["model"] == "words-24"
        assert swapped.add_text(OTTER, kb="new")["status"] == "ready"
        assert swapped.add_text(MOSS)["status"] == "ready"
        answer = swapped.admin.post("/v1/search", json={"query": HERON}).json()
        assert similarities(answer) == {
            HERON: cosine(HERON, HERON, LARGE),
            MOSS: cosine(HERON, MOSS, LARGE),
            OTTER: cosine(HERON, OTTER, SMALL),
        }
        assert answer["warnings"] == []
    with run_service(settings(tmp_path, models.small), urls) as service:
        left = Tenant(service, tenant.id, tenant.key, service.create_client(tenant.key))
        reason = "Knowledge base 'default' was embedded with model 'words-64', but 'words-24' is configured."
        reason += " Reindex it or restore the setting."
        assert left.admin.get("/v1/knowledge-bases/default").json()["index"]["problem"] == reason
        answer = left.admin.post("/v1/search", json={"query": HERON}).json()
        assert similarities(answer) == {HERON: None, MOSS: None, OTTER: cosine(HERON, OTTER, SMALL)}
        assert answer["warnings"] == [
            warning_json("embedding_model_mismatch", f"{reason} Its dense retriever was skipped.")
        ]
        body = {"text": OTTER, "knowledge_base": "default"}
        assert_problem(left.admin.post("/v1/preview", json=body), 409, "index_mismatch")
        assert_problem(
            left.admin.post("/v1/knowledge-bases/default/documents", json={"text": OTTER}), 409, "index_mismatch"
        )


@pytest.mark.parametrize("strategy", ["dense", "hybrid"])
def test_search_several_models_first_results_do_not_depend_on_top_k(models: Models, strategy: str) -> None:
    """The spans of the cosines of both models are unknown, so the found cosines scale each other."""
    for kb, model in ((f"{strategy}-large", f"words-{LARGE}"), (f"{strategy}-small", f"words-{SMALL}")):
        new_kb(models.tenant.admin, kb, chunking={"max_tokens": 16}, model=model).raise_for_status()
        lines = [f"The heron {number} waits{' patiently' * (number % 7)} near stone {kb}." for number in range(160)]
        assert models.tenant.add_text("\n\n".join(lines), kb=kb)["status"] == "ready"
    body = {"knowledge_bases": [f"{strategy}-large", f"{strategy}-small"], "strategy": strategy, "timeout_seconds": 30}
    found = [
        [
            (item["chunk_id"], item["score"])
            for item in models.search("heron 7 waits patiently", **body, top_k=top_k)["results"]
        ]
        for top_k in (5, 100, 180, 500)
    ]
    assert len(found[-1]) > 200
    for shorter, longer in itertools.pairwise(found):
        assert shorter[:150] == longer[: len(shorter)][:150]
    scores = [score for _, score in found[-1]]
    assert scores == sorted(scores, reverse=True)
