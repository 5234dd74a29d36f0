"""Nodes: reading the tree, chunks below a node, UTF-16 offsets, and promotion of scopes."""

import json
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from app.api.v1.documents.nodes import DocumentTreeOut, stream_tree_json
from app.db.models.tenant_data import DocumentRow
from app.documents.content.node_table import NodeTable
from app.documents.content.offsets import OffsetConverter
from app.documents.content.service import MAX_SMALL_TREE_NODES, TooManyTrees, TreesBusy, TreeView, create_tree_slots
from app.ids import encode_id, generate_id
from harness.running_service import Service, Tenant
from tests.api.document_reader import DocumentReader
from tests.api.problems import assert_problem

DOCUMENTS = "/v1/knowledge-bases/default/documents"
# Characters of two UTF-16 units are before, between and inside the examined texts.
TEXT = "\n\n".join(
    [
        "# Birds 😀",
        "Some 🐦 fly 🐦 far.",
        "## Owls",
        " ".join(f"The owl 🦉 number {number} sits on branch {number}." for number in range(30)),
        "### Barn owls",
        "They live in barns.",
        "## Ducks",
        "Ducks 🦆 swim.",
        "# Fish",
        "Fish are no birds.",
    ]
)


def reader_of(tenant: Tenant, text: str, **fields: Any) -> DocumentReader:
    document = tenant.add_text(text, media_type="text/markdown", **fields)
    assert document["status"] == "ready"
    return DocumentReader(tenant.create_client("reader"), f"{DOCUMENTS}/{document['id']}", document)


@pytest.fixture(scope="module")
def birds(service: Service) -> DocumentReader:
    return reader_of(service.create_tenant("birds"), TEXT)


@pytest.mark.capability("tree")
def test_tree_contains_every_node_with_offsets(birds: DocumentReader) -> None:
    nodes = birds.nodes()
    root = nodes[0]
    assert (root["kind"], root["depth"], root["parent_id"], root["text"]) == ("document", 0, None, None)
    titles = [(node["title"], node["depth"], node["level"]) for node in nodes if node["kind"] == "section"]
    assert titles == [("Birds 😀", 1, 1), ("Owls", 2, 2), ("Barn owls", 3, 3), ("Ducks", 2, 2), ("Fish", 1, 1)]
    for node in nodes:
        assert all(
            (child["parent_id"], child["depth"]) == (node["id"], node["depth"] + 1) for child in node["children"]
        )
        assert (node["text"] is None) == bool(node["children"])
    assert {node["block"] for node in nodes if node["kind"] == "paragraph"} == {"heading", "paragraph"}


@pytest.mark.capability("tree-depth")
@pytest.mark.parametrize("depth", [0, 1, 2, 3, 4, 100])
def test_tree_depth_parameter_cuts_tree(birds: DocumentReader, depth: int) -> None:
    whole = birds.nodes()
    assert max(node["depth"] for node in whole) == 4

    def without_children(nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{**node, "children": None} for node in nodes]

    wanted = [node for node in whole if node["depth"] <= depth]
    assert without_children(birds.nodes(depth=depth)) == without_children(wanted)


@pytest.mark.capability("tree-node")
def test_node_returns_text_and_ancestors(birds: DocumentReader) -> None:
    nodes = birds.nodes()
    stored = birds.get(f"/nodes/{nodes[0]['id']}")["text"]
    line: list[dict[str, Any]] = []
    for node in nodes:
        single = birds.get(f"/nodes/{node['id']}")
        same = {name: value for name, value in node.items() if name not in ("text", "children")}
        assert {name: single[name] for name in same} == same
        assert single["text"] == stored[node["start"] : node["end"]]
        assert node["text"] in (None, single["text"])
        brief = [{name: child[name] for name in ("id", "kind", "title")} for child in node["children"]]
        assert single["children"] == brief
        line[node["depth"] :] = [same]
        assert birds.get(f"/nodes/{node['id']}/ancestors") == {"items": line[:-1], "next_cursor": None}


@pytest.mark.capability("tree-chunks")
def test_chunks_below_node_contain_its_text(birds: DocumentReader) -> None:
    chunks = birds.chunks()
    assert len(chunks) > 5
    for node in birds.nodes():
        found = birds.chunks(node=node["id"])
        assert found == [chunk for chunk in chunks if chunk["start"] < node["end"] and chunk["end"] > node["start"]]
        assert found, node
        inside = [chunk for chunk in chunks if node["id"] in chunk["node_path"]]
        assert [chunk for chunk in inside if chunk not in found] == []


@pytest.mark.parametrize("limit", [1, 2, 200])
def test_chunks_below_node_are_paged(birds: DocumentReader, limit: int) -> None:
    (owls,) = [node["id"] for node in birds.nodes() if node["title"] == "Owls"]
    wanted = birds.chunks(node=owls)
    assert 2 < len(wanted) < birds.document["chunk_count"]
    found: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    while len(found) < len(wanted):
        page = birds.get("/chunks", node=owls, limit=limit, **cursor)
        found += page["items"]
        cursor = {"cursor": page["next_cursor"]}
        assert (page["next_cursor"] is None) == (len(found) == len(wanted))
    assert found == wanted


@pytest.mark.capability("chunk-path")
def test_chunk_returns_text_and_node_path(birds: DocumentReader) -> None:
    chunks = birds.chunks()
    ids = [None, *(chunk["id"] for chunk in chunks), None]
    nodes = {node["id"]: node for node in birds.nodes()}
    for chunk, before, behind in zip(chunks, ids, ids[2:], strict=False):
        single = birds.get(f"/chunks/{chunk['id']}")
        places: dict[str, Any] = {"boxes": [], "page_sizes": []}
        assert single == {**chunk, **places, "previous_chunk_id": before, "next_chunk_id": behind}
        holder = nodes[chunk["node_path"][-1]]
        assert chunk["depth"] == holder["depth"] == len(chunk["node_path"]) - 1
        assert holder["start"] <= chunk["start"] < chunk["end"] <= holder["end"]


@pytest.mark.capability("tree-utf16")
def test_offsets_utf16_count_as_browsers(birds: DocumentReader) -> None:
    nodes = birds.nodes()
    stored = birds.get(f"/nodes/{nodes[0]['id']}")["text"]

    def counted(thing: dict[str, Any]) -> dict[str, Any]:
        """Return a node with its offsets, and those of its children, in UTF-16 units."""
        places = {name: len(stored[: thing[name]].encode("utf-16-le")) // 2 for name in ("start", "end")}
        return {**thing, **places, **({"children": list(map(counted, thing["children"]))} if nested(thing) else {})}

    def nested(thing: dict[str, Any]) -> bool:
        return any("start" in child for child in thing.get("children", ()))

    suffixes = [f"/nodes/{node['id']}" for node in nodes] + [f"/chunks/{chunk['id']}" for chunk in birds.chunks()]
    for suffix in suffixes:
        plain = birds.get(suffix)
        assert birds.get(suffix, offsets="utf16") == counted(plain), suffix
        assert plain["end"] < counted(plain)["end"]
    assert birds.get("/tree", offsets="utf16")["root"] == counted(birds.get("/tree")["root"])
    lists = ["/chunks", *(f"/nodes/{node['id']}/ancestors" for node in nodes)]
    for suffix in lists:
        items = [counted(item) for item in birds.get(suffix)["items"]]
        assert birds.get(suffix, offsets="utf16")["items"] == items
    owls = next(node["id"] for node in nodes if node["title"] == "Owls")
    page = birds.get("/chunks", node=owls, offsets="utf16", limit=2)
    assert page["items"] == [counted(item) for item in birds.get("/chunks", node=owls, limit=2)["items"]]


@pytest.mark.parametrize("suffix", ["/tree", "/chunks", "/nodes/{node}", "/nodes/{node}/ancestors", "/chunks/{chunk}"])
@pytest.mark.parametrize("offsets", ["utf8", "UTF16", "", "bytes", "\0"], ids=ascii)
def test_invalid_offsets_parameter_is_422(birds: DocumentReader, suffix: str, offsets: str) -> None:
    path = suffix.format(node=birds.nodes()[0]["id"], chunk=birds.chunks()[0]["id"])
    assert_problem(birds.client.get(birds.path + path, params={"offsets": offsets}), 422, "invalid")


@pytest.mark.parametrize("depth", ["-1", "101", "x", "", "1.5", "9" * 5000])
def test_invalid_tree_depth_is_422(birds: DocumentReader, depth: str) -> None:
    assert_problem(birds.client.get(f"{birds.path}/tree", params={"depth": depth}), 422, "invalid")


def test_foreign_and_unknown_node_ids_are_404(birds: DocumentReader, service: Service) -> None:
    """Ids of another document, tenant or version, unknown ids and invalid ids have the same reply."""
    tenant = service.create_tenant("versions")
    first = reader_of(tenant, "# One\n\nThe first version.", external_id="e")
    neighbour = reader_of(tenant, "# Two\n\nAnother document.")
    old = first.nodes()[0]["id"], first.chunks()[0]["id"]
    second = reader_of(tenant, "# One\n\nThe second version.", external_id="e")
    assert (second.path, second.document["live_version"]) == (first.path, 2)
    foreign = [(reader.nodes()[0]["id"], reader.chunks()[0]["id"]) for reader in (birds, neighbour)]
    invented = encode_id("nod", generate_id()), encode_id("chk", generate_id())
    own = second.nodes()[0]["id"], second.chunks()[0]["id"]
    garbage = [("nod_%00", "chk_%00"), ("%FF", "%FF"), ("x" * 3000, "x" * 3000), own[::-1], ("nod_", "chk_")]
    told = set()
    for node, chunk in [old, *foreign, invented, *garbage]:
        for suffix, code in (
            (f"/nodes/{node}", "node_not_found"),
            (f"/nodes/{node}/ancestors", "node_not_found"),
            (f"/chunks?node={node}", "node_not_found"),
            (f"/chunks/{chunk}", "chunk_not_found"),
        ):
            found = assert_problem(second.client.get(second.path + suffix), 404, code)
            told.add((code, found["detail"], found["title"]))
    assert len(told) == 2
    assert second.get(f"/nodes/{own[0]}")["text"].endswith("The second version.")


def test_document_that_is_not_ready_has_no_nodes(tenant: Tenant) -> None:
    failed = tenant.admin.post(DOCUMENTS, params={"wait": 60}, files={"file": ("a.pdf", b"%PDF-1.7 broken")}).json()
    assert failed["status"] == "failed"
    path = f"{DOCUMENTS}/{failed['id']}"
    assert tenant.admin.get(f"{path}/tree", params={"depth": 0, "offsets": "utf16"}).json()["root"] is None
    assert tenant.admin.get(f"{path}/chunks", params={"offsets": "utf16"}).json()["items"] == []
    assert_problem(tenant.admin.get(f"{path}/nodes/{encode_id('nod', generate_id())}"), 404, "node_not_found")
    assert_problem(tenant.admin.get(f"{path}/chunks/{encode_id('chk', generate_id())}"), 404, "chunk_not_found")


def test_deep_tree_is_cut_at_json_depth_limit() -> None:
    ids = [generate_id() for _ in range(5000)]
    nodes = NodeTable()
    nodes.add([node_row(one, parent) for one, parent in zip(ids, [None, *ids], strict=False)])
    found = "".join(stream_tree_json(tree_of(nodes), depth=100))
    assert json.loads(found)["root"]["depth"] == 0
    assert found.count('"depth"') == 101


def test_tree_json_of_shuffled_additions_matches_the_model() -> None:
    """Nodes that were added last are still children of their parents; a node with an unknown parent is left out."""
    root, one, two, late, lost = (generate_id() for _ in range(5))
    nodes = NodeTable()
    nodes.add([node_row(root, None), node_row(one, root), node_row(two, root, page=3)])
    nodes.add([node_row(late, one, kind="topic"), node_row(lost, generate_id())])
    found = DocumentTreeOut.model_validate_json("".join(stream_tree_json(tree_of(nodes), depth=5)))
    assert found.root is not None
    ids = [encode_id("nod", each) for each in (root, one, two, late)]
    assert [found.root.id, *(child.id for child in found.root.children)] == ids[:3]
    assert [child.id for child in found.root.children[0].children] == ids[3:]
    assert (found.root.text, found.root.children[0].text, found.root.children[1].text) == (None, None, "text")
    assert (found.root.children[1].page, found.root.children[1].slide) == (3, None)


def test_tree_of_many_nodes_takes_little_memory() -> None:
    root, number = generate_id(), 20_000
    tracemalloc.start()
    try:
        nodes = NodeTable()
        nodes.add([node_row(root, None)])
        for _ in range(number):
            nodes.add([node_row(generate_id(), root)])
        size = sum(map(len, stream_tree_json(tree_of(nodes), depth=100)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size > 200 * number
    assert peak < 400 * number


async def test_large_trees_of_one_tenant_are_read_in_turn(service: Service) -> None:
    reader = reader_of(
        service.create_tenant("large"), "\n\n".join(f"{number} a" for number in range(MAX_SMALL_TREE_NODES))
    )
    with ThreadPoolExecutor(4) as threads:
        replies = list(threads.map(lambda _: reader.get("/tree"), range(4)))
    assert all(reply == replies[0] for reply in replies)
    assert len(replies[0]["root"]["children"]) == MAX_SMALL_TREE_NODES


async def test_tree_slots_refusal_has_code() -> None:
    places, tenant = replace(create_tree_slots(), wait_timeout_seconds=0.01), generate_id()
    async with places.acquire(tenant):
        with pytest.raises(TooManyTrees):
            async with places.acquire(tenant):
                pass
        async with places.acquire(generate_id()):
            with pytest.raises(TreesBusy):
                async with places.acquire(generate_id()):
                    pass


def node_row(node: UUID, parent: UUID | None, *, kind: str = "section", page: int | None = None) -> dict[str, Any]:
    """Return a row of the table of nodes."""
    places = {"start_offset": 0, "end_offset": 4, "page": page, "page_end": page, "slide": None}
    return {"id": node, "parent_id": parent, "kind": kind, "level": 1, "title": None, "block": None, **places}


def tree_of(nodes: NodeTable) -> TreeView:
    return TreeView(DocumentRow(id=generate_id(), live_version=1), nodes, "text", OffsetConverter())


@pytest.mark.capability("scope-promotion")
def test_promote_document_moves_up_scopes(tenant: Tenant) -> None:
    writer, reader = tenant.create_client("writer"), tenant.create_client("reader")
    document = tenant.add_text("Herons wade.", chat_id="c", agent_id="a", metadata={"kind": "bird"})
    path = f"{DOCUMENTS}/{document['id']}"

    def seen(**scope: str) -> bool:
        body = {"query": "herons", "scope": scope, "filter": {"kind": "bird"}}
        return bool(reader.post("/v1/search", json=body).json()["results"])

    def who() -> list[bool]:
        return [seen(chat_id="c", agent_id="a"), seen(chat_id="c"), seen(user_id="u"), seen(user_id="v"), seen()]

    assert who() == [True, False, False, False, False]
    for scope, others in (
        ({"level": "chat_shared", "chat_id": "c"}, [True, True, False, False, False]),
        ({"level": "user", "user_id": "u"}, [False, False, True, False, False]),
        ({"level": "tenant"}, [True, True, True, True, True]),
    ):
        changed = writer.patch(path, json={"scope": scope}).json()
        assert changed["scope"] == {"user_id": None, "chat_id": None, "agent_id": None, **scope}
        assert who() == others, scope
        assert writer.patch(path, json={"scope": scope}).json() == changed
    assert (changed["metadata"], changed["version"]) == ({"kind": "bird"}, 1)
    assert changed["updated_at"] > document["updated_at"]
    assert_problem(writer.patch(path, json={"scope": {"level": "user", "user_id": "u"}}), 422, "invalid")
    assert_problem(reader.patch(path, json={"scope": {"level": "tenant"}}), 403, "forbidden")


@pytest.mark.parametrize(
    "scope",
    [
        None, {}, [], "tenant", {"level": "shared"}, {"level": "chat_agent", "chat_id": "c"}, {"level": None},
        {"level": "tenant", "user_id": "u"}, {"level": "user"}, {"level": "user", "user_id": "u", "chat_id": "c"},
        {"level": "user", "user_id": ""}, {"level": "user", "user_id": "\0"}, {"level": "user", "user_id": "x" * 257},
        {"level": "chat_shared"}, {"level": "chat_shared", "chat_id": "another"}, {"user_id": "u"},
        {"level": "chat_shared", "chat_id": "c", "agent_id": "a"},
    ],
    ids=ascii,
)  # fmt: skip
def test_invalid_scope_changes_are_422(scope_keeper: DocumentReader, scope: Any) -> None:
    assert_problem(
        scope_keeper.client.patch(scope_keeper.path, json={"scope": scope, "title": "changed"}), 422, "invalid"
    )
    assert scope_keeper.get("") == scope_keeper.document


@pytest.fixture(scope="module")
def scope_keeper(service: Service) -> DocumentReader:
    tenant = service.create_tenant("scopes")
    document = tenant.add_text("Stays in its chat.", chat_id="c", agent_id="a")
    return DocumentReader(tenant.admin, f"{DOCUMENTS}/{document['id']}", document)


def test_promotion_to_existing_identity_is_409(tenant: Tenant) -> None:
    for fields in ({}, {"external_id": "e"}):
        above = tenant.add_text("Gulls cry.", **fields)
        document = tenant.add_text("Gulls cry.", user_id="u", **fields)
        path = f"{DOCUMENTS}/{document['id']}"
        found = assert_problem(tenant.admin.patch(path, json={"scope": {"level": "tenant"}}), 409, "duplicate_identity")
        assert above["id"] not in str(found)
        assert tenant.admin.get(path).json() == document
