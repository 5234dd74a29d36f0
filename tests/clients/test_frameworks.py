"""Retrievers of LangChain and LlamaIndex, each in a Python environment with the real package."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.databases import DatabaseFactory
from harness.protocol_servers.site_search import PAGES, SiteSearchServer, build_source_settings
from harness.running_service import Tenant, build_settings, run_service

ROOT = Path(__file__).parents[2]
ENVIRONMENTS = os.environ.get("CLIENT_ENVIRONMENTS")
pytestmark = pytest.mark.skipif(ENVIRONMENTS is None, reason="make prove NAME=clients creates the environments")


def run(name: str, *arguments: str) -> dict[str, Any]:
    """Return the last printed line of the framework's program, run in the framework's environment."""
    python = Path(ENVIRONMENTS or "") / name / "bin" / "python"
    program = Path(__file__).parent / "programs" / f"use_{name.replace('-', '_')}.py"
    done = subprocess.run(
        [python.absolute(), program, *arguments], env={"PYTHONPATH": str(ROOT / "clients/python")},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.capability("client-frameworks")
@pytest.mark.parametrize("name", ["langchain", "llama-index"])
def test_framework_retriever_passages_have_metadata(name: str, tenant: Tenant) -> None:
    tenant.add_text("The tern dives for fish.", title="Terns", metadata={"year": 2026})
    tenant.add_text("The tern rests on a rock.", title="Rests", metadata={"year": 2025})
    reader = tenant.admin.post("/v1/api-keys", json={"name": "reader", "role": "reader"}).json()["key"]
    found = run(name, tenant.service.url, reader, "What does the tern do?")
    assert found["same"]
    assert {one[1] for one in found["plain"]} == {"The tern dives for fish.", "The tern rests on a rock."}
    identity, text, metadata, *_score = found["plain"][0]
    assert identity.startswith("chk_")
    assert metadata["citation"] in ("Terns", "Rests")
    assert metadata["year"] == (2026 if "dives" in text else 2025)
    assert found["filtered"] == ["The tern dives for fish."]
    if "shown" in found:
        assert found["shown"] == f"citation: {metadata['citation']}\n\n{text}"


@pytest.fixture(scope="module")
def with_site(make_database: DatabaseFactory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenant]:
    """Tenant with a web site's search as a knowledge base."""
    response = {"items": "results", "text": "snippet", "title": "title", "url": "link"}
    with SiteSearchServer() as site:
        settings = build_settings(tmp_path_factory.mktemp("site"), http_sources=build_source_settings(site))
        with run_service(settings, make_database()) as running:
            tenant = running.create_tenant()
            source = {"url": site.url, "params": {"q": "{query}"}, "response": response}
            kb = {"name": "site", "kind": "http", "source": source}
            tenant.admin.post("/v1/knowledge-bases", json=kb).raise_for_status()
            yield tenant


@pytest.mark.parametrize("name", ["langchain", "llama-index"])
def test_framework_retriever_http_source_passages_have_no_id(name: str, with_site: Tenant) -> None:
    found = run(name, with_site.service.url, with_site.key, "When is the harbour museum open?", "site")
    _, text, metadata, *_score = found["plain"][0]
    assert text == PAGES["/opening"][1]
    assert metadata["source_uri"].endswith("/opening")
    assert metadata["chunk_id"] is None
