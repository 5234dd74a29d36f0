"""Documents of provided chunks: stored unchanged, and found by their words, vectors and metadata."""

import json
import math
from typing import Any

import httpx2
import pytest

from harness.running_service import Tenant
from harness.word_vectors import compute_text_vector
from tests.api.breakable_service import UPLOAD_LIMIT, BreakableService
from tests.api.problems import assert_problem

DOCUMENTS = "/v1/knowledge-bases/default/documents"
DIMENSIONS = 64
Chunks = list[dict[str, Any]]
Filter = dict[str, Any]


@pytest.fixture
def tenant(fragile: BreakableService) -> Tenant:
    return fragile.service.create_tenant("chunks")


def put(tenant: Tenant, chunks: Chunks, *, kb: str = "default", **fields: Any) -> httpx2.Response:
    body = {"chunks": chunks, **fields}
    return tenant.admin.post(f"/v1/knowledge-bases/{kb}/documents", params={"wait": 60}, json=body)


def ready(tenant: Tenant, chunks: Chunks, **fields: Any) -> dict[str, Any]:
    reply = put(tenant, chunks, **fields)
    document: dict[str, Any] = reply.json()
    assert (reply.status_code, document["status"]) == (201, "ready"), reply.text
    return document


def search(tenant: Tenant, query: str, **body: Any) -> list[dict[str, Any]]:
    reply = tenant.admin.post("/v1/search", json={"query": query, "top_k": 50, **body})
    reply.raise_for_status()
    found: list[dict[str, Any]] = reply.json()["results"]
    return found


def texts(tenant: Tenant, query: str, **body: Any) -> list[str]:
    return [result["text"] for result in search(tenant, query, **body)]


def chunks_of(tenant: Tenant, document: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = tenant.admin.get(f"{DOCUMENTS}/{document['id']}/chunks").json()["items"]
    return found


@pytest.mark.capability("doc-chunks")
def test_provided_chunks_are_stored_unchanged(tenant: Tenant) -> None:
    given: Chunks = [
        {"text": "The heron waits.\n", "page": 3, "section_titles": ["Birds", "Herons"], "metadata": {"legs": 2}},
        {"text": " The otter dives. ", "page": 7, "section_titles": ["Otters"]},
        {"text": "No page, no title. 🦦"},
    ]
    document = ready(tenant, given, title="Animals", metadata={"zoo": True})
    assert (document["chunk_count"], document["page_count"], document["title"]) == (3, 7, "Animals")
    assert document["metadata"] == {"zoo": True}
    found = chunks_of(tenant, document)
    for number, (chunk, sent) in enumerate(zip(found, given, strict=True)):
        assert (chunk["chunk_index"], chunk["total_chunks"]) == (number, 3)
        assert chunk["text"] == sent["text"]
        assert chunk["metadata"] == sent.get("metadata", {})
        assert chunk["section_titles"] == sent.get("section_titles", [])
        assert chunk["page"] == chunk["page_end"] == sent.get("page")
        assert chunk["tokens"] > 0
    (result,) = search(tenant, "heron", strategy="lexical")
    assert result["text"] == "The heron waits.\n"
    assert (result["chunk_index"], result["total_chunks"], result["page"]) == (0, 3, 3)
    # In results and filters, the chunk's metadata takes precedence over the document's.
    assert (result["section_titles"], result["metadata"]) == (["Birds", "Herons"], {"legs": 2, "zoo": True})
    assert result["document"]["metadata"] == {"zoo": True}
    assert result["citation"].endswith(", p. 3")
    assert texts(tenant, "herons", strategy="lexical") == ["The heron waits.\n"]  # its title is indexed with it
    tree = tenant.admin.get(f"{DOCUMENTS}/{document['id']}/tree").json()
    assert [child["kind"] for child in tree["root"]["children"]] == ["paragraph"] * 3


@pytest.mark.capability("doc-chunk-metadata")
def test_provided_chunk_metadata_can_be_filtered(tenant: Tenant) -> None:
    given: Chunks = [
        {"text": "The red heron.", "metadata": {"colour": "red", "seen": "2024-03-01", "zoo": "mine"}},
        {"text": "The blue heron.", "metadata": {"colour": "blue"}, "page": 2},
        {"text": "The plain heron."},
    ]
    document = ready(tenant, given, title="Herons", metadata={"zoo": "all", "year": 2024})
    ready(tenant, [{"text": "The other heron."}])
    everything = {"The red heron.", "The blue heron.", "The plain heron."}
    for filter_, found in (
        ({"colour": "red"}, {"The red heron."}),
        ({"colour": {"not": "red"}, "year": 2024}, {"The blue heron.", "The plain heron."}),
        ({"seen": {"gte": "2024-02"}}, {"The red heron."}),
        ({"$page": 2}, {"The blue heron."}),
        ({"year": 2024}, everything),
        ({"$title": "Herons"}, everything),
        ({"$document_id": document["id"]}, everything),
        ({"zoo": "mine"}, {"The red heron."}),  # the chunk's value takes precedence
        ({"zoo": "all"}, {"The blue heron.", "The plain heron."}),
        ({"colour": "green"}, set()),
    ):
        for strategy in ("dense", "lexical"):
            assert set(texts(tenant, "heron", filter=filter_, strategy=strategy)) == found, (filter_, strategy)


def test_document_metadata_change_leaves_chunk_metadata(tenant: Tenant) -> None:
    given: Chunks = [{"text": "The red heron.", "metadata": {"colour": "red"}, "page": 4}, {"text": "The plain heron."}]
    document = ready(tenant, given, metadata={"year": 2023})
    change = {"metadata": {"year": 2024, "colour": "any"}, "title": "Herons"}
    changed = tenant.admin.patch(f"{DOCUMENTS}/{document['id']}", json=change).json()
    assert changed["metadata"] == change["metadata"]
    for filter_, found in (
        ({"colour": "red"}, ["The red heron."]),
        ({"colour": "any"}, ["The plain heron."]),
        ({"year": 2024, "$page": 4}, ["The red heron."]),
        ({"year": 2023}, []),
    ):
        for strategy in ("dense", "lexical"):
            assert texts(tenant, "heron", filter=filter_, strategy=strategy) == found, (filter_, strategy)
    assert [chunk["metadata"] for chunk in chunks_of(tenant, document)] == [{"colour": "red"}, {}]
    (result,) = search(tenant, "heron", filter={"colour": "red"})
    assert result["metadata"] == {"year": 2024, "colour": "red"}
    assert result["document"]["metadata"] == change["metadata"]


def test_enforced_metadata_overrides_chunk_metadata(tenant: Tenant) -> None:
    body = {"name": "stamped", "metadata_filter": {"team": "ops"}}
    tenant.admin.post("/v1/knowledge-bases", json=body).raise_for_status()
    given: Chunks = [{"text": "The sly heron.", "metadata": {"team": "mine", "own": 1}}, {"text": "The plain heron."}]
    document = ready(tenant, given, kb="stamped", metadata={"team": "yours"})
    assert document["metadata"] == {"team": "ops"}
    path = f"/v1/knowledge-bases/stamped/documents/{document['id']}"
    assert [chunk["metadata"] for chunk in tenant.admin.get(f"{path}/chunks").json()["items"]] == [{"own": 1}, {}]
    before: list[tuple[Filter, int]] = [({}, 2), ({"team": "ops"}, 2), ({"team": "mine"}, 0), ({"own": 1}, 1)]
    for filter_, count in before:
        assert len(texts(tenant, "heron", filter=filter_, knowledge_bases=["stamped"])) == count, filter_
    tenant.admin.patch(path, json={"metadata": {"team": "theirs", "new": 1}}).raise_for_status()
    after: list[tuple[Filter, int]] = [({"team": "ops", "new": 1}, 2), ({"team": "theirs"}, 0)]
    for filter_, count in after:
        assert len(texts(tenant, "heron", filter=filter_, knowledge_bases=["stamped"])) == count, filter_


@pytest.mark.capability("doc-chunk-vectors")
def test_provided_vector_is_searched(fragile: BreakableService, tenant: Tenant) -> None:
    near, far = (
        compute_text_vector("a harbour at dawn", DIMENSIONS),
        compute_text_vector("arithmetic of fractions", DIMENSIONS),
    )
    given: Chunks = [
        {"text": "Nothing in common.", "vector": [1e-3 * value for value in near]},  # a vector of any length
        {"text": "The harbour, far away.", "vector": far},
        {"text": "Embedded here: a harbour at dawn."},
    ]
    fragile.embedding.reset()
    ready(tenant, given)
    asked = [text for request in fragile.embedding.received for text in request.inputs]
    assert asked == [given[2]["text"]]
    found = search(tenant, "harbour at dawn", strategy="dense")
    assert found[0]["text"] == "Nothing in common."
    assert found[0]["similarity"] == pytest.approx(cosine("harbour at dawn", "a harbour at dawn"), abs=0.01)
    assert [one["text"] for one in found][-1] == "The harbour, far away."
    assert found[-1]["similarity"] == pytest.approx(cosine("harbour at dawn", "arithmetic of fractions"), abs=0.01)
    assert texts(tenant, "common", strategy="lexical") == ["Nothing in common."]


def cosine(one: str, other: str) -> float:
    a, b = compute_text_vector(one, DIMENSIONS), compute_text_vector(other, DIMENSIONS)
    return math.fsum(x * y for x, y in zip(a, b, strict=True)) / (math.hypot(*a) * math.hypot(*b))


@pytest.mark.capability("doc-chunk-vectors")
def test_provided_vectors_for_all_chunks_need_no_model(fragile: BreakableService, tenant: Tenant) -> None:
    fragile.embedding.fail(400, times=None)
    try:
        given = [
            {"text": f"Number {number}.", "vector": compute_text_vector(str(number), DIMENSIONS)}
            for number in range(70)
        ]
        ready(tenant, given)
    finally:
        fragile.embedding.reset()
    assert texts(tenant, "41", strategy="dense")[0] == "Number 41."


ONES = [1.0] * DIMENSIONS
GOOD = {"text": "x"}
WRONG: dict[str, tuple[Any, list[Any]]] = {
    "a short vector": ([{"text": "x", "vector": [1.0] * 63}], ["body", "chunks", 0, "vector"]),
    "a long vector": ([GOOD, {"text": "x", "vector": [1.0] * 65}], ["body", "chunks", 1, "vector"]),
    "an empty vector": ([{"text": "x", "vector": []}], ["body", "chunks", 0, "vector"]),
    "a vector of nothing": ([{"text": "x", "vector": [0.0] * 64}], ["body", "chunks", 0, "vector"]),
    "NaN": ([{"text": "x", "vector": [math.nan, *ONES[1:]]}], ["body", "chunks", 0, "vector"]),
    "infinity": ([{"text": "x", "vector": [math.inf, *ONES[1:]]}], ["body", "chunks", 0, "vector"]),
    "less than nothing": ([{"text": "x", "vector": [-math.inf, *ONES[1:]]}], ["body", "chunks", 0, "vector"]),
    "both infinities": ([{"text": "x", "vector": [math.inf, -math.inf, *ONES[2:]]}], ["body", "chunks", 0, "vector"]),
    "a length beyond all numbers": ([{"text": "x", "vector": [1e308] * 64}], ["body", "chunks", 0, "vector"]),
    "words in a vector": ([{"text": "x", "vector": ["one", *ONES[1:]]}], ["body", "chunks", 0, "vector", 0]),
    "null in a vector": ([{"text": "x", "vector": [None, *ONES[1:]]}], ["body", "chunks", 0, "vector", 0]),
    "no chunks": ([], ["body", "chunks"]),
    "a chunk that is a text": (["x"], ["body", "chunks", 0]),
    "a chunk without a text": ([{"page": 1}], ["body", "chunks", 0, "text"]),
    "an empty text": ([{"text": ""}], ["body", "chunks", 0, "text"]),
    "a blank text": ([GOOD, {"text": " \n\t"}], ["body", "chunks", 1, "text"]),
    "a text with a NUL": ([{"text": "a\0b"}], ["body", "chunks", 0, "text"]),
    "page 0": ([{"text": "x", "page": 0}], ["body", "chunks", 0, "page"]),
    "a page beyond all pages": ([{"text": "x", "page": 2**31}], ["body", "chunks", 0, "page"]),
    "an empty title": ([{"text": "x", "section_titles": [""]}], ["body", "chunks", 0, "section_titles", 0]),
    "21 titles": ([{"text": "x", "section_titles": ["t"] * 21}], ["body", "chunks", 0, "section_titles"]),
    "a reserved name": ([{"text": "x", "metadata": {"$page": 1}}], ["body", "chunks", 0, "metadata"]),
    "NaN in metadata": ([{"text": "x", "metadata": {"a": math.nan}}], ["body", "chunks", 0, "metadata"]),
    "an unknown field": ([{"text": "x", "colour": "red"}], ["body", "chunks", 0, "colour"]),
    "10,001 chunks": ([{"text": "x"}] * 10_001, ["body", "chunks"]),
}


@pytest.mark.parametrize("name", WRONG)
def test_provided_chunks_with_invalid_values_are_422(refusing: Tenant, name: str) -> None:
    chunks, loc = WRONG[name]
    content = json.dumps({"chunks": chunks})  # many encoders write NaN and Infinity so
    reply = refusing.admin.post(DOCUMENTS, content=content, headers={"Content-Type": "application/json"})
    found = assert_problem(reply, 422, "invalid")
    assert found["errors"][0]["loc"] == loc
    assert refusing.admin.get(DOCUMENTS).json()["items"] == []


@pytest.fixture(scope="module")
def refusing(fragile: BreakableService) -> Tenant:
    return fragile.service.create_tenant("refusing")


@pytest.mark.parametrize(
    "body",
    [
        {"text": "x", "chunks": [GOOD]},
        {},
        {"text": None, "chunks": None},
        {"chunks": [GOOD], "media_type": "text/plain"},
        {"chunks": [GOOD], "encoding": "utf-8"},
        {"chunks": {"text": "x"}},
    ],
    ids=["both", "neither", "both null", "a media type", "an encoding", "no list"],
)
def test_document_body_needs_exactly_one_of_text_and_chunks(refusing: Tenant, body: dict[str, Any]) -> None:
    assert_problem(refusing.admin.post(DOCUMENTS, json=body), 422, "invalid")


def test_provided_chunk_longer_than_model_input_fails_document(tenant: Tenant) -> None:
    long = "word " * 20_000
    failed = put(tenant, [GOOD, {"text": long}]).json()
    assert (failed["status"], failed["error"]["code"]) == ("failed", "too_large")
    assert "index 1" in failed["error"]["message"]
    assert failed["error"]["retryable"] is False
    ready(tenant, [GOOD, {"text": long, "vector": ONES}])  # no model reads the text


def test_provided_chunks_above_upload_limit_are_413(tenant: Tenant) -> None:
    assert_problem(put(tenant, [{"text": "x" * 1000}] * (UPLOAD_LIMIT // 1000)), 413, "too_large")


def test_same_provided_chunks_return_existing_document(tenant: Tenant) -> None:
    given: Chunks = [{"text": "Once.", "metadata": {"a": 1}, "vector": ONES}, {"text": "Twice."}]
    first = ready(tenant, given)
    again = put(tenant, given)
    assert (again.status_code, again.json()) == (200, first)
    for other in (
        [{**given[0], "metadata": {"a": 2}}, given[1]],
        [{**given[0], "vector": [2.0, *ONES[1:]]}, given[1]],
        [given[0], {**given[1], "page": 1}],
        given[::-1],
    ):
        assert ready(tenant, other)["id"] != first["id"]


def test_new_version_may_switch_between_chunks_and_text(tenant: Tenant) -> None:
    first = ready(tenant, [{"text": "The old heron."}, {"text": "The old otter."}], external_id="animals")
    second = ready(tenant, [{"text": "The new heron."}], external_id="animals")
    assert (second["id"], second["version"], second["chunk_count"]) == (first["id"], 2, 1)
    assert texts(tenant, "old new heron otter") == ["The new heron."]
    third = tenant.add_text("The newest heron.", external_id="animals")
    assert (third["id"], third["version"], third["media_type"]) == (first["id"], 3, "text/plain")
    fourth = ready(tenant, [{"text": "The last heron."}], external_id="animals")
    assert (fourth["id"], fourth["version"]) == (first["id"], 4)
    assert texts(tenant, "newest new old last heron") == ["The last heron."]


def test_file_claiming_chunk_media_type_is_not_read_as_chunks(tenant: Tenant) -> None:
    """A file that claims to be chunks is not one either, because its content was never checked."""
    document = ready(tenant, [GOOD])
    forged = json.dumps([{"text": "forged", "metadata": {"$page": 1}}]).encode()
    file = ("chunks.json", forged, document["media_type"])
    reply = tenant.admin.post(DOCUMENTS, params={"wait": 60}, files={"file": file})
    assert reply.status_code in (201, 202, 415)
    assert reply.status_code == 415 or reply.json()["media_type"] != document["media_type"]
