"""A knowledge base with documents of all kinds, and its archive."""

from pathlib import Path

import pytest

from harness.running_service import Service, Tenant

SAMPLES = Path(__file__).parent.parent / "samples"
FILES = ("notes.md", "outline.pdf", "two_columns.pdf", "workbook.xlsx", "page.html")
BIRDS = {
    "tern": "The tern dives for small fish near the shore and nests on gravel.",
    "heron": "The heron stands in shallow water and waits for frogs.",
    "reiher": "Der Reiher steht im flachen Wasser und wartet auf die Frösche am Ufer des Sees.",
    "ibis": "An ibis probes mud with its curved bill; part number AX-2231 is no bird.",
}


@pytest.fixture(scope="module")
def source(service: Service) -> Tenant:
    """A tenant whose knowledge base ``birds`` has files, texts, provided chunks, scopes and metadata."""
    tenant = service.create_tenant("source")
    settings = {"name": "birds", "title": "Birds", "language": "auto", "chunking": {"max_tokens": 90}}
    settings |= {"metadata_filter": {"shelf": "nature"}, "retrieval": {"top_k": 7, "rewrite_prompt": "Ask of birds."}}
    settings |= {"routing": {"descriptions": ["Birds of the shore."], "scale": 1.5}}
    tenant.admin.post("/v1/knowledge-bases", json=settings).raise_for_status()
    for name in FILES:
        assert tenant.upload(SAMPLES / name, kb="birds", external_id=name)["status"] == "ready"
    for name, text in BIRDS.items():
        tenant.add_text(text, kb="birds", title=name.title(), metadata={"name": name, "legs": 2})
    tenant.add_text("Only Ada may read that the owl hoots.", kb="birds", user_id="ada")
    tenant.add_text("In this chat the agent knows the kestrel hovers.", kb="birds", chat_id="c", agent_id="a")
    for user in ("ada", "bob"):
        tenant.add_text("In the user's chat the agent knows the heron wades.", kb="birds", user_id=user, chat_id="c")
    chunks = [{"text": f"A ready chunk, number {n}, about pelicans.", "metadata": {"n": n}} for n in range(3)]
    body = {"chunks": [*chunks, {"text": "A chunk with a page.", "page": 3, "section_titles": ["One", "Two"]}]}
    reply = tenant.admin.post("/v1/knowledge-bases/birds/documents", params={"wait": 60}, json=body)
    assert reply.json()["status"] == "ready"
    return tenant


@pytest.fixture(scope="module")
def archive(source: Tenant) -> bytes:
    """Archive of the knowledge base ``birds``."""
    reply = source.admin.get("/v1/knowledge-bases/birds/export")
    assert (reply.status_code, reply.headers["content-type"]) == (200, "application/x-tar")
    return reply.content
