"""Extractors of plugins: ingestion and reindex run those that a knowledge base names, and failures are warnings."""

import asyncio
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from app.graph.extraction.plugin_extractor import load_extractors
from app.settings import Settings
from harness.consistency import find_inconsistencies
from harness.databases import DatabaseFactory
from harness.protocol_servers.embedding import EmbeddingServer
from harness.running_service import Service, Tenant, build_settings, run_service
from tests.api.problems import assert_problem
from tests.cli.commands import printed
from tests.fixtures.plugins import Plugins

HANG_SECONDS = 60.0
SOURCE = '''
"""Extractors of a test."""

import threading

from carrel.plugins.extractors import Entity

ENTERED, RELEASED = threading.Event(), threading.Event()


class Elements:
    name, version = "elements", "1"

    def extract(self, chunks):
        if any("please wait" in chunk.text for chunk in chunks):
            ENTERED.set()
            RELEASED.wait(30)
        return [self.find(chunk) for chunk in chunks]

    def find(self, chunk):
        words = [Entity(word, "element", 2) for word in ("gadolinium", "neon") if word in chunk.text]
        return words + [Entity(str(value), "colour") for key, value in chunk.metadata.items() if key == "colour"]


class Broken:
    name, version = "broken", "1"

    def extract(self, chunks):
        raise RuntimeError(chunks[0].text)


elements, broken = Elements(), Broken()
'''
TEXT = "Here, Mira Vale found gadolinium in 1953."


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Folder with an installed plugin of two extractors."""
    made = tmp_path_factory.mktemp("plugins")
    entries = {name: f"graph_elements:{name}" for name in ("elements", "broken")}
    Plugins(made).add("graph_elements", SOURCE, extractors=entries)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(made)
        load_extractors.cache_clear()
        yield made
    load_extractors.cache_clear()


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    with EmbeddingServer() as server:
        yield build_settings(tmp_path_factory.mktemp("extractors"), embedding=server.settings)


@pytest.fixture(scope="module")
def extracting(folder: Path, settings: Settings, make_database: DatabaseFactory) -> Iterator[Service]:
    """Service with the plugin."""
    with run_service(settings, make_database()) as running:
        yield running


@pytest.fixture
def chemist(extracting: Service) -> Tenant:
    tenant = extracting.create_tenant()
    create(tenant, "lab", "elements")
    return tenant


def create(tenant: Tenant, name: str, *extractors: str) -> None:
    body = {"name": name, "graph": {"extractors": list(extractors)}}
    reply = tenant.admin.post("/v1/knowledge-bases", json=body)
    assert reply.status_code == 201, reply.text
    assert reply.json()["graph"] == {"enabled": True, "metadata_keys": [], "extractors": list(extractors)}


def describe(tenant: Tenant, kb: str) -> dict[str, Any]:
    found: dict[str, Any] = tenant.admin.get(f"/v1/knowledge-bases/{kb}").json()
    return found


def list_types(tenant: Tenant, kb: str, document: dict[str, Any]) -> dict[str, str | None]:
    """Return the names in a document with their types."""
    graph = tenant.admin.get(f"/v1/knowledge-bases/{kb}/documents/{document['id']}/graph").json()
    return {node["name"]: node["type"] for node in graph["nodes"]}


def list_warnings(tenant: Tenant, kb: str, document: dict[str, Any]) -> list[str]:
    found = tenant.admin.get(f"/v1/knowledge-bases/{kb}/documents/{document['id']}").json()
    assert found["status"] == "ready"
    return [each["message"] for each in found["warnings"] if each["code"] == "entities_not_extracted"]


def reindex(tenant: Tenant, kb: str) -> None:
    tenant.admin.post(f"/v1/knowledge-bases/{kb}/reindex").raise_for_status()
    end = time.monotonic() + HANG_SECONDS
    while describe(tenant, kb)["reindex"] is not None:
        assert time.monotonic() < end
        time.sleep(0.05)


def set_extractors(tenant: Tenant, kb: str, *names: str) -> dict[str, Any]:
    reply = tenant.admin.patch(f"/v1/knowledge-bases/{kb}", json={"graph": {"extractors": list(names)}})
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    return found


def test_capabilities_list_installed_extractors(chemist: Tenant) -> None:
    expected = [{"name": "broken", "version": "1"}, {"name": "elements", "version": "1"}]
    assert chemist.admin.get("/v1/capabilities").json()["extractors"] == expected


def test_knowledge_base_without_extractors_runs_none(chemist: Tenant) -> None:
    assert describe(chemist, "default")["graph"]["extractors"] == []
    document = chemist.add_text(TEXT)
    assert list_types(chemist, "default", document) == {"Mira Vale": None}
    assert list_warnings(chemist, "default", document) == []


@pytest.mark.capability("graph-extractors")
def test_entities_of_extractor_join_the_others(extracting: Service, chemist: Tenant) -> None:
    document = chemist.add_text(TEXT, kb="lab", metadata={"colour": "teal"})
    expected = {"Mira Vale": None, "gadolinium": "element", "teal": "colour"}
    assert list_types(chemist, "lab", document) == expected
    assert list_warnings(chemist, "lab", document) == []
    assert describe(chemist, "lab")["index"]["action"] is None
    reindex(chemist, "lab")
    assert list_types(chemist, "lab", document) == expected
    assert asyncio.run(find_inconsistencies(extracting.urls.owner)) == {}


def test_changed_extractors_need_reindex_and_apply_after_it(chemist: Tenant) -> None:
    document = chemist.add_text(TEXT)
    assert set_extractors(chemist, "default", "elements")["index"]["action"] == "reindex"
    assert list_types(chemist, "default", document) == {"Mira Vale": None}
    reindex(chemist, "default")
    assert list_types(chemist, "default", document) == {"Mira Vale": None, "gadolinium": "element"}
    assert describe(chemist, "default")["index"]["action"] is None
    assert set_extractors(chemist, "default")["index"]["action"] == "reindex"


def test_failing_extractor_is_a_warning_until_a_reindex_without_it(chemist: Tenant) -> None:
    create(chemist, "sad", "broken", "elements")
    document = chemist.add_text(TEXT, kb="sad")
    assert list_types(chemist, "sad", document) == {"Mira Vale": None, "gadolinium": "element"}
    message = "The extractor 'broken' failed (RuntimeError), so 1 of 1 chunks have no entities of it."
    assert list_warnings(chemist, "sad", document) == [message]
    body = {"query": "gadolinium", "strategy": "lexical"}
    found = chemist.admin.post("/v1/knowledge-bases/sad/search", json=body).json()["results"]
    assert [result["text"] for result in found] == [TEXT]
    reindex(chemist, "sad")
    assert list_warnings(chemist, "sad", document) == [message]
    set_extractors(chemist, "sad", "elements")
    reindex(chemist, "sad")
    assert list_warnings(chemist, "sad", document) == []


def test_changed_metadata_during_extraction_is_in_the_graph(extracting: Service, chemist: Tenant) -> None:
    """The service answers and ingests other documents while an extractor computes."""
    body = {"name": "slow", "graph": {"extractors": ["elements"], "metadata_keys": ["author"]}}
    chemist.admin.post("/v1/knowledge-bases", json=body).raise_for_status()
    plugin = sys.modules["graph_elements"]
    plugin.ENTERED.clear()
    plugin.RELEASED.clear()
    documents = "/v1/knowledge-bases/slow/documents"
    sent = {"text": f"please wait. {TEXT}", "metadata": {"author": "Bob Jones", "colour": "teal"}}
    document = chemist.admin.post(documents, json=sent).json()
    try:
        assert plugin.ENTERED.wait(HANG_SECONDS)
        other = chemist.add_text("Then, Anna Smith left.")
        assert list_types(chemist, "default", other) == {"Anna Smith": None}
        assert chemist.admin.get(f"{documents}/{document['id']}").json()["status"] != "ready"
        change = {"metadata": {"author": "Zoe Quill", "colour": "teal"}}
        chemist.admin.patch(f"{documents}/{document['id']}", json=change).raise_for_status()
    finally:
        plugin.RELEASED.set()
    end = time.monotonic() + HANG_SECONDS
    while (found := chemist.admin.get(f"{documents}/{document['id']}").json())["status"] != "ready":
        assert time.monotonic() < end, found
        time.sleep(0.05)
    assert found["warnings"] == []
    expected = {"Mira Vale": None, "Zoe Quill": None, "gadolinium": "element", "teal": "colour"}
    assert list_types(chemist, "slow", document) == expected
    assert asyncio.run(find_inconsistencies(extracting.urls.owner)) == {}


def test_import_runs_no_extractor_and_says_so(chemist: Tenant, tmp_path: Path) -> None:
    chemist.add_text(TEXT, kb="lab")
    run = partial(printed, url=chemist.service.url, key=chemist.key)
    archive = str(tmp_path / "lab.tar")
    run("export", "lab", "--to", archive)
    run("import", archive, "--kb", "copy")
    assert describe(chemist, "copy")["graph"]["extractors"] == ["elements"]
    (document,) = chemist.admin.get("/v1/knowledge-bases/copy/documents").json()["items"]
    assert list_types(chemist, "copy", document) == {"Mira Vale": None}
    (message,) = list_warnings(chemist, "copy", document)
    assert "elements" in message
    reindex(chemist, "copy")
    assert list_types(chemist, "copy", document) == {"Mira Vale": None, "gadolinium": "element"}
    assert list_warnings(chemist, "copy", document) == []


@pytest.mark.parametrize("names", [["unknown"], ["elements", "Elements"], [""], [5], ["elements"] * 11], ids=str)
def test_unknown_extractor_is_422(chemist: Tenant, names: list[Any]) -> None:
    graph = {"extractors": names}
    for reply in (
        chemist.admin.post("/v1/knowledge-bases", json={"name": "new", "graph": graph}),
        chemist.admin.patch("/v1/knowledge-bases/lab", json={"graph": graph}),
    ):
        found = assert_problem(reply, 422, "invalid")
        assert found["errors"][0]["loc"][:3] == ["body", "graph", "extractors"]
        if names == ["unknown"]:
            assert "broken, elements" in reply.text
    assert describe(chemist, "lab")["graph"]["extractors"] == ["elements"]


def test_removed_extractor_is_a_warning(folder: Path, settings: Settings, make_database: DatabaseFactory) -> None:
    urls = make_database()
    with run_service(settings, urls) as first:
        tenant = first.create_tenant()
        create(tenant, "lab", "elements")
        former = tenant.add_text(TEXT, kb="lab")
    entry_points = folder / "graph_elements-1.0.dist-info" / "entry_points.txt"
    content = entry_points.read_text()
    entry_points.write_text("")
    load_extractors.cache_clear()
    try:
        with run_service(settings, urls) as second:
            again = Tenant(second, tenant.id, tenant.key, second.create_client(tenant.key))
            index = describe(again, "lab")["index"]
            assert (index["action"], "other settings" in index["problem"]) == ("reindex", True)
            assert list_types(again, "lab", former) == {"Mira Vale": None, "gadolinium": "element"}
            document = again.add_text(f"{TEXT} Again.", kb="lab")
            assert list_types(again, "lab", document) == {"Mira Vale": None}
            (message,) = list_warnings(again, "lab", document)
            assert "'elements' is not installed" in message
            reply = again.admin.patch("/v1/knowledge-bases/lab", json={"graph": {"extractors": ["elements"]}})
            assert_problem(reply, 422, "invalid")
            assert "Installed extractors: none." in reply.text
    finally:
        entry_points.write_text(content)
        load_extractors.cache_clear()
