"""Reading documents: lists with filters, changes, ranges of the original, chunks and the tree."""

from pathlib import Path
from typing import Any

import pytest

from app.api.v1.documents.documents import parse_byte_range
from harness.running_service import Service, Tenant
from tests.api.problems import assert_problem

SAMPLES = Path(__file__).parents[1] / "samples"
HANDBOOK = Path(__file__).parents[2] / "samples" / "handbook.pdf"
DOCUMENTS = "/v1/knowledge-bases/default/documents"


@pytest.fixture(scope="module")
def library(service: Service) -> Tenant:
    """A tenant with four small documents."""
    tenant = service.create_tenant("library")
    tenant.add_text("Anchors are heavy.", title="Anchors", metadata={"kind": "tool", "year": 2020}, external_id="a")
    tenant.add_text("Buoys are light.", title="Buoys", metadata={"kind": "mark", "year": 2022, "tags": ["red", "sea"]})
    tenant.add_text("Cargo is stowed.", user_id="u")
    tenant.add_text("Docks are dry.", chat_id="c", agent_id="g")
    return tenant


@pytest.mark.capability("doc-list")
@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({}, ["Docks are dry.", "Cargo is stowed.", "Buoys are light.", "Anchors are heavy."]),
        ({"status": "ready"}, ["Docks are dry.", "Cargo is stowed.", "Buoys are light.", "Anchors are heavy."]),
        ({"status": "failed"}, []),
        ({"external_id": "a"}, ["Anchors are heavy."]),
        ({"external_id": "b"}, []),
        ({"user_id": "u"}, ["Cargo is stowed."]),
        ({"user_id": "v"}, []),
        ({"chat_id": "c"}, []),
        ({"chat_id": "c", "agent_id": "g"}, ["Docks are dry."]),
        ({"filter": '{"kind": "tool"}'}, ["Anchors are heavy."]),
        ({"filter": '{"year": {"gte": 2021}}'}, ["Buoys are light."]),
        ({"filter": '{"tags": {"contains": "sea"}}'}, ["Buoys are light."]),
        ({"filter": '{"$title": "Buoys"}'}, ["Buoys are light."]),
        (
            {"filter": '{"kind": {"not": "tool"}}', "status": "ready"},
            ["Docks are dry.", "Cargo is stowed.", "Buoys are light."],
        ),
        ({"filter": "{}", "limit": 1}, ["Docks are dry."]),
    ],
)
def test_document_list_filters_narrow_documents(library: Tenant, query: dict[str, str], found: list[str]) -> None:
    listed = library.create_client("reader").get(DOCUMENTS, params=query).json()["items"]
    originals = [library.admin.get(f"{DOCUMENTS}/{document['id']}/content").text for document in listed]
    assert originals == found


def test_invalid_scope_ids_are_422_with_location(library: Tenant) -> None:
    ids = {"user_id": "u", "agent_id": "a"}
    listing = library.admin.get(DOCUMENTS, params=ids)
    text = library.admin.post(DOCUMENTS, json={"text": "Whose?", **ids})
    file = library.admin.post(DOCUMENTS, files={"file": ("a.txt", b"Whose?")}, data=ids)
    for reply, place in ((listing, ["query"]), (text, ["body"]), (file, ["body"])):
        assert assert_problem(reply, 422, "invalid")["errors"][0]["loc"] == place


@pytest.mark.capability("scope-levels")
def test_document_list_shows_scopes(library: Tenant) -> None:
    levels = [document["scope"]["level"] for document in library.admin.get(DOCUMENTS).json()["items"]]
    assert levels == ["chat_agent", "user", "tenant", "tenant"]


@pytest.mark.capability("doc-change")
def test_document_change_is_visible_in_lists_and_searches(tenant: Tenant) -> None:
    document = tenant.add_text("Ropes are long.", title="Ropes", metadata={"a": 1}, source_uri="https://a.example/")
    path = f"{DOCUMENTS}/{document['id']}"

    def hits(**filter_: Any) -> int:
        return len(tenant.admin.post("/v1/search", json={"query": "ropes", "filter": filter_}).json()["results"])

    changed = tenant.create_client("writer").patch(path, json={"metadata": {"b": 2}, "title": "Lines"}).json()
    assert (changed["metadata"], changed["title"], changed["source_uri"]) == ({"b": 2}, "Lines", "https://a.example/")
    assert (hits(b=2), hits(a=1), hits(**{"$title": "Lines"})) == (1, 0, 1)
    emptied = tenant.admin.patch(path, json={"metadata": {}, "title": None, "source_uri": None}).json()
    assert (emptied["metadata"], emptied["title"], emptied["source_uri"]) == ({}, "Ropes", None)
    assert (hits(b=2), hits(**{"$title": {"exists": True}}), hits()) == (0, 0, 1)
    # The same text as before: the index of titles is up to date when it is ready.
    ready = tenant.add_text("Ropes are long.")
    assert {**ready, "updated_at": None} == {**emptied, "updated_at": None, "status": "ready", "progress": None}
    assert tenant.admin.patch(path, json={}).json() == ready
    assert tenant.admin.get(path).json() == ready
    assert ready["version"] == 1


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": None}, {"metadata": []}, {"metadata": {"$x": 1}}, {"metadata": {"a": "\0"}},
        {"title": ""}, {"title": 5},
        {"title": "x" * 501}, {"source_uri": "javascript:alert(1)"}, {"source_created_at": "2024-01-01"},
        {"external_id": "x"},
        {"version": 2}, {"status": "ready"},
    ],
)  # fmt: skip
def test_document_invalid_change_is_422(library: Tenant, change: dict[str, Any]) -> None:
    document = library.admin.get(DOCUMENTS).json()["items"][0]
    assert_problem(library.admin.patch(f"{DOCUMENTS}/{document['id']}", json=change), 422, "invalid")
    assert library.admin.get(f"{DOCUMENTS}/{document['id']}").json() == document


def test_document_of_other_knowledge_base_is_404(library: Tenant) -> None:
    library.admin.post("/v1/knowledge-bases", json={"name": "empty"})
    document = library.admin.get(DOCUMENTS).json()["items"][0]["id"]
    for suffix in ("", "/content", "/chunks", "/tree"):
        assert_problem(
            library.admin.get(f"/v1/knowledge-bases/empty/documents/{document}{suffix}"), 404, "document_not_found"
        )
    assert_problem(library.admin.delete(f"/v1/knowledge-bases/empty/documents/{document}"), 404, "document_not_found")


ORIGINAL = b"0123456789" * 10


@pytest.fixture(scope="module")
def original(service: Service) -> tuple[Tenant, str]:
    tenant = service.create_tenant("originals")
    files = {"file": ('na"ïve\u202e.txt', ORIGINAL)}
    made = tenant.admin.post(DOCUMENTS, files=files).json()
    return tenant, f"{DOCUMENTS}/{made['id']}/content"


@pytest.mark.capability("doc-content")
def test_original_is_downloaded_whole(original: tuple[Tenant, str]) -> None:
    reply = original[0].admin.get(original[1])
    assert (reply.status_code, reply.content) == (200, ORIGINAL)
    assert reply.headers["content-type"].startswith("text/plain")
    assert reply.headers["accept-ranges"] == "bytes"
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert reply.headers["content-security-policy"] == "sandbox"
    assert reply.headers["content-disposition"].startswith("inline; filename=")
    assert reply.headers["content-disposition"].isascii()


@pytest.mark.capability("doc-content")
@pytest.mark.parametrize(
    ("asked", "status", "first", "last"),
    [
        ("bytes=0-9", 206, 0, 9),
        ("bytes=95-", 206, 95, 99),
        ("bytes=-5", 206, 95, 99),
        ("bytes=-500", 206, 0, 99),
        ("bytes=0-", 206, 0, 99),
        ("bytes=99-500", 206, 99, 99),
        ("Bytes = 3-3", 206, 3, 3),
        ("bytes=100-", 416, 0, 0),
        ("bytes=-0", 416, 0, 0),
        ("bytes=9-3", 200, 0, 99),
        ("bytes=0-1,4-5", 200, 0, 99),
        ("bytes=x-y", 200, 0, 99),
        ("bytes=-", 200, 0, 99),
        ("lines=1-2", 200, 0, 99),
        ("bytes=" + "9" * 6000 + "-", 200, 0, 99),
        ("bytes=1-" + "9" * 6000, 200, 0, 99),
    ],
)
def test_original_range_returns_part(
    original: tuple[Tenant, str], asked: str, status: int, first: int, last: int
) -> None:
    reply = original[0].admin.get(original[1], headers={"Range": asked})
    if status == 416:
        assert_problem(reply, 416)
        assert reply.headers["content-range"] == "bytes */100"
        return
    assert (reply.status_code, reply.content) == (status, ORIGINAL[first : last + 1])
    assert reply.headers["content-length"] == str(last - first + 1)
    assert reply.headers.get("content-range") == (f"bytes {first}-{last}/100" if status == 206 else None)


def test_original_if_range_of_other_version_returns_whole(original: tuple[Tenant, str]) -> None:
    tenant, path = original
    etag = tenant.admin.get(path).headers["etag"]
    for validator, status in ((etag, 206), ('"another"', 200), ("Wed, 21 Oct 2015 07:28:00 GMT", 200)):
        assert tenant.admin.get(path, headers={"Range": "bytes=1-2", "If-Range": validator}).status_code == status


def test_range_parser_equals_definition() -> None:
    for size in (1, 2, 5):
        for first in ["", *map(str, range(7))]:
            for last in ["", *map(str, range(7))]:
                found = parse_byte_range(f"bytes={first}-{last}", size)
                if (not first and not last) or (first and last and int(last) < int(first)):
                    assert found is None
                    continue
                whole = range(size)
                wanted = list(
                    whole[int(first) : int(last) + 1 if last else None] if first else whole[max(0, size - int(last)) :]
                )
                assert found is not None
                assert list(range(found[0], sum(found))) == wanted, (first, last, size)


def test_missing_original_is_503_before_body(service: Service, tenant: Tenant) -> None:
    document = tenant.add_text("Its file is lost.")
    (lost,) = [
        path
        for path in (service.settings.server.data_dir / "objects").glob("*/*/*")
        if path.read_bytes() == b"Its file is lost."
    ]
    lost.unlink()
    assert_problem(tenant.admin.get(f"{DOCUMENTS}/{document['id']}/content"), 503, "object_missing")


def test_chunks_refer_to_tree_nodes(service: Service) -> None:
    tenant = service.create_tenant("tree")
    document = tenant.upload(HANDBOOK)
    path = f"{DOCUMENTS}/{document['id']}"
    chunks = tenant.admin.get(f"{path}/chunks", params={"limit": 200}).json()["items"]
    assert [chunk["chunk_index"] for chunk in chunks] == list(range(document["chunk_count"]))
    assert {chunk["total_chunks"] for chunk in chunks} == {document["chunk_count"]}
    assert all(chunk["text"].strip() and chunk["start"] < chunk["end"] for chunk in chunks)
    assert all(1 <= chunk["page"] <= chunk["page_end"] <= document["page_count"] for chunk in chunks)

    tree = tenant.admin.get(f"{path}/tree").json()
    assert (tree["document"], tree["version"]) == (document["id"], 1)
    nodes: dict[str, dict[str, Any]] = {}
    pending = [tree["root"]]
    while pending:
        node = pending.pop()
        nodes[node["id"]] = node
        assert (node["text"] is None) or not node["children"]
        pending += node["children"]
    assert any(node["kind"] == "section" and node["title"] for node in nodes.values())
    for chunk in chunks:
        assert chunk["node_path"][0] == tree["root"]["id"]
        assert all(part in nodes for part in chunk["node_path"])
        parents = zip(chunk["node_path"], chunk["node_path"][1:], strict=False)
        assert all(any(child["id"] == below for child in nodes[above]["children"]) for above, below in parents)


def test_document_that_is_not_ready_has_no_chunks(tenant: Tenant) -> None:
    failed = tenant.upload(SAMPLES / "truncated.pdf")
    assert tenant.admin.get(f"{DOCUMENTS}/{failed['id']}/chunks").json() == {"items": [], "next_cursor": None}
    empty = tenant.admin.get(f"{DOCUMENTS}/{failed['id']}/tree").json()
    assert empty == {"document": failed["id"], "version": None, "root": None}
