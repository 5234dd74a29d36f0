"""Python client against the running service, and against servers that are busy, disconnect or are no Carrel."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from carrel_client import (
    AsyncClient,
    CarrelError,
    Client,
    Conflict,
    ConnectionFailed,
    Forbidden,
    IngestionFailed,
    Invalid,
    NotFound,
    PreconditionFailed,
    RateLimited,
    ServiceUnavailable,
    Unauthorized,
    UnexpectedReply,
    UnsupportedMediaType,
)
from carrel_client.types import SearchOptions

from app.api.v1.search.search import MultiSearchRequest
from harness.protocol_servers.unresponsive import ScriptedReply, ScriptedServer
from harness.running_service import OPERATOR_KEY, Service, Tenant

ROOT = Path(__file__).parents[2]
HANDBOOK = ROOT / "samples" / "handbook.pdf"
BUSY = ScriptedReply(503, b'{"type": "urn:carrel:problem:unavailable", "detail": "Down."}', {"Retry-After": "0"})


@pytest.fixture
def client(tenant: Tenant) -> Client:
    return Client(tenant.service.url, tenant.key)


def test_synchronous_client_is_generated_from_asynchronous() -> None:
    script = ROOT / "clients/python/generate.py"
    assert subprocess.run([sys.executable, script, "--check"], check=False, timeout=60).returncode == 0


@pytest.mark.capability("client-python")
def test_client_upload_search_and_delete_succeeds(client: Client, tmp_path: Path) -> None:
    with client:
        document = client.documents.upload("default", HANDBOOK, wait=60, metadata={"year": 2026}, external_id="h")
        assert (document["status"], document["metadata"], document["source"]) == (
            "ready",
            {"year": 2026},
            HANDBOOK.name,
        )
        found = client.search("parental leave", knowledge_base="default", top_k=2, filter={"year": 2026})
        assert len(found["results"]) == 2
        assert found["results"][0]["document"]["id"] == document["id"]
        assert client.search("leave", knowledge_bases=["default"])["results"]
        calibrated = client.search("Can I cancel a one-way rental?", knowledge_base="default", score_threshold="auto")
        assert calibrated["results"]
        assert [item["knowledge_base"] for item in calibrated["auto_thresholds"]] == ["default"]
        texts = client.agent_search([{"role": "customer", "content": "How long is parental leave?"}], top_k=3)
        assert len(texts) == 3
        assert len(list(client.documents.chunks("default", document["id"]))) == document["chunk_count"]
        assert client.documents.download("default", document["id"], tmp_path / "again.pdf") == HANDBOOK.stat().st_size
        assert (tmp_path / "again.pdf").read_bytes() == HANDBOOK.read_bytes()
        assert client.documents.page_image("default", document["id"], 1, scale=0.5).startswith(b"\x89PNG")
        with pytest.raises(NotFound, match="8 pages"):
            client.documents.page_image("default", document["id"], 9)
        renamed = client.documents.update("default", document["id"], title="Staff handbook")
        assert renamed["title"] == "Staff handbook"
        deletion = client.documents.delete("default", document["id"])
        assert client.receipt(deletion)["documents"] == 1
        assert deletion in {receipt["id"] for receipt in client.receipts()}
        assert client.search("leave", knowledge_base="default")["results"] == []


def test_client_uploads_paths_bytes_streams_and_texts(client: Client) -> None:
    with client:
        one = client.documents.upload("default", b"The tern.", filename="one.txt")
        assert (
            client.documents.wait("default", one["id"], timeout_seconds=60, poll_interval_seconds=0.02)["status"]
            == "ready"
        )
        two = client.documents.upload("default", io.BytesIO(b"The heron."), filename="dir/two.txt", wait=60)
        assert two["source"] == "two.txt"
        three = client.documents.add_text("default", "The ibis.", title="Third", wait=60)
        assert {each["id"] for each in client.documents.list("default")} == {one["id"], two["id"], three["id"]}
        assert [each["id"] for each in client.documents.list("default", external_id="none")] == []
        with pytest.raises(ValueError, match="filename"):
            client.documents.upload("default", b"nameless")
        bad = client.documents.upload("default", b"%PDF-1.4 broken", filename="bad.pdf")
        with pytest.raises(IngestionFailed) as failed:
            client.documents.wait("default", bad["id"], timeout_seconds=60, poll_interval_seconds=0.02)
        assert failed.value.code == "corrupt"
        gone = client.documents.delete_many("default", ids=[one["id"], two["id"]])
        assert gone["deleted"] == 2
        with pytest.raises(Invalid):
            client.documents.delete_many("default", filter={})
        assert client.documents.delete_many("default", filter={}, confirm="default")["deleted"] == 2


def test_client_lists_continue_after_first_page(client: Client) -> None:
    with client:
        for number in range(3):
            client.knowledge_bases.create(f"kb{number}")
        names = [item["name"] for item in client.pages("knowledge-bases", params={"limit": 2})]
        assert names == ["kb2", "kb1", "kb0", "default"]
        assert client.knowledge_bases.update("kb1", title="One")["title"] == "One"
        assert client.receipt(client.knowledge_bases.delete("kb1"))["kind"] == "knowledge_base"
        assert [item["name"] for item in client.knowledge_bases.list()] == ["kb2", "kb0", "default"]


def test_client_manages_keys_agents_and_tenants(client: Client, service: Service) -> None:
    with client, Client(service.url, OPERATOR_KEY) as operator:
        key = client.api_keys.create("for reading", "reader")
        with Client(service.url, key["key"]) as reader:
            assert reader.me()["key"]["role"] == "reader"
            with pytest.raises(Forbidden):
                reader.documents.add_text("default", "No.")
            newer = client.api_keys.rotate(key["id"], overlap_seconds=0)
            with pytest.raises(Unauthorized):
                reader.me()
        client.api_keys.revoke(newer["id"])
        assert newer["id"] not in [each["id"] for each in client.api_keys.list()]
        client.agents.bind("agent 1", ["default"], max_top_k=3)
        assert client.agents.get("agent 1")["max_top_k"] == 3
        client.agents.unbind("agent 1")
        assert list(client.agents.list()) == []
        made = operator.tenants.create("a tenant", quotas={"documents": 1})
        with Client(service.url, made["api_key"]["key"]) as limited:
            limited.documents.add_text("default", "One.")
            with pytest.raises(RateLimited) as refused:
                limited.post("knowledge-bases", "default", "documents", body={"text": "Two."})
            assert (refused.value.code, refused.value.retry_after is not None) == ("quota_exceeded", True)
        assert operator.tenants.update(made["id"], name="another")["name"] == "another"
        assert operator.tenants.delete(made["id"]).startswith("del_")
        assert any(event["action"] == "agent.delete" for event in client.audit_events(limit=2))


def test_client_lists_corrects_and_restores_entities(client: Client) -> None:
    with client:
        for text in ("Then Acme Alpha met Acme Beta.", "Then Acme Beta left Acme Gamma."):
            document = client.documents.add_text("default", text, wait=60)
        bases = client.knowledge_bases
        ids = {entity["name"]: entity["id"] for entity in bases.entities("default", prefix="acme")}
        assert sorted(ids) == ["Acme Alpha", "Acme Beta", "Acme Gamma"]
        assert [entity["id"] for entity in bases.entities("default", q="gam")] == [ids["Acme Gamma"]]
        assert bases.merge_entities("default", [ids["Acme Beta"]], ids["Acme Alpha"]) == ids["Acme Alpha"]
        detail = bases.entity("default", ids["Acme Beta"], limit=1)
        assert (detail["id"], detail["chunks"], len(detail["chunk_list"])) == (ids["Acme Alpha"], 2, 1)
        other = bases.split_entity("default", ids["Acme Gamma"], [document["id"]], "Acme Gamma (the ship)")
        graph = client.documents.graph("default", document["id"])
        assert {node["id"] for node in graph["nodes"]} >= {other, ids["Acme Alpha"]}
        corrections = list(bases.corrections("default"))
        assert [row["document"] for row in corrections] == [document["id"], None]
        for row in corrections:
            bases.undo_correction("default", row["id"])
        assert {entity["name"]: entity["id"] for entity in bases.entities("default", prefix="acme")} == ids
        with pytest.raises(NotFound):
            bases.undo_correction("default", corrections[0]["id"])


def test_client_search_options_equal_route_fields() -> None:
    assert {*SearchOptions.__annotations__, "query", "knowledge_bases"} == set(MultiSearchRequest.model_fields)


def test_client_errors_have_types_and_reasons(client: Client) -> None:
    with client:
        with pytest.raises(NotFound) as missing:
            client.documents.get("default", "doc_nothing")
        assert (missing.value.code, missing.value.status) == ("document_not_found", 404)
        assert missing.value.request_id
        with pytest.raises(Invalid) as wrong:
            client.search("x", knowledge_base="default", top_k=0)
        assert str(wrong.value).count(wrong.value.errors[0]["msg"]) == 1
        assert wrong.value.errors[0]["loc"] == ["body", "top_k"]
        assert "body.top_k" in str(wrong.value)
        with pytest.raises(Invalid) as unknown:
            client.search("x", knowledge_base="default", strategy="magic")
        assert str(unknown.value).count("magic") == 1
        assert str(unknown.value).endswith("; at body.strategy")
        with pytest.raises(Conflict):
            client.knowledge_bases.create("default")
        with pytest.raises(UnsupportedMediaType):
            client.documents.upload("default", b"PK\x03\x04", filename="a.docx")


async def test_asynchronous_client_has_same_methods(tenant: Tenant) -> None:
    async with AsyncClient(tenant.service.url, tenant.key) as client:
        document = await client.documents.upload("default", HANDBOOK)
        assert (await client.documents.wait("default", document["id"], timeout_seconds=60, poll_interval_seconds=0.02))[
            "status"
        ] == "ready"
        assert (await client.search("parental leave"))["results"]
        assert [item["id"] async for item in client.documents.list("default")] == [document["id"]]
        with pytest.raises(NotFound):
            await client.knowledge_bases.get("none")


def test_client_fills_golden_set_and_compares_settings(client: Client) -> None:
    with client:
        herons, trout = (
            client.documents.add_text("default", text, wait=60)["id"] for text in ("Herons wait.", "Trout swim.")
        )
        golden_set = client.golden_sets.create("Animals", description="Few.")["id"]
        relevant = [{"document": herons}, {"document": trout}]
        (item,) = client.golden_sets.add_items(golden_set, [{"query": "herons", "relevant": relevant}])
        messages = [{"role": "user", "content": "Who swims?"}]
        client.golden_sets.add_items(golden_set, [{"messages": messages, "relevant": [{"document": trout}]}])
        client.golden_sets.remove_relevant(golden_set, item["id"], trout)
        assert [len(each["relevant"]) for each in client.golden_sets.items(golden_set)] == [1, 1]
        assert client.golden_sets.get(golden_set)["item_count"] == client.count("golden-sets", golden_set, "items") == 2
        started = client.evaluations.create(golden_set, [{}, {"strategy": "lexical"}])
        done = client.evaluations.wait(started["id"], timeout_seconds=60, poll_interval_seconds=0.02)
        assert (done["state"], done["figures"][0]["difference"]["worse"]) == ("done", 0)
        assert len(list(client.evaluations.results(started["id"]))) == 2
        assert list(client.evaluations.results(started["id"], change="worse", measure="MRR@10")) == []
        assert [each["id"] for each in client.evaluations.list(golden_set=golden_set)] == [started["id"]]
        client.evaluations.delete(started["id"])
        client.golden_sets.delete_item(golden_set, item["id"])
        client.golden_sets.delete(golden_set)
        assert list(client.golden_sets.list()) == []


def test_client_update_with_outdated_etag_changes_nothing(client: Client) -> None:
    with client:
        golden_set = client.golden_sets.create("Animals")["id"]
        client.agents.bind("agent", ["default"])
        document = client.documents.add_text("default", "Herons wait.", wait=60)["id"]
        paths: list[tuple[str, ...]] = [
            ("knowledge-bases", "default"),
            ("knowledge-bases", "default", "documents", document),
            ("agents", "agent"),
            ("golden-sets", golden_set),
        ]

        def update(path: tuple[str, ...], etag: str | None, text: str) -> None:
            if path[0] == "golden-sets":
                client.golden_sets.update(golden_set, if_match=etag, name=text)
            elif path[0] == "agents":
                client.agents.update("agent", if_match=etag, answer_prompt=text)
            elif "documents" in path:
                client.documents.update("default", document, if_match=etag, title=text)
            else:
                client.knowledge_bases.update("default", if_match=etag, title=text)

        for path in paths:
            _, etag = client.get_with_etag(*path)
            update(path, etag, "One")
            with pytest.raises(PreconditionFailed):
                update(path, etag, "Two")
        assert client.golden_sets.get(golden_set)["name"] == "One"
        assert client.count("knowledge-bases") == 1


@pytest.mark.capability("client-retries")
@pytest.mark.parametrize(
    "first", [BUSY, ScriptedReply(0), ScriptedReply(429, BUSY.body, BUSY.headers), ScriptedReply(502, b"<html>")]
)
def test_client_retries_transient_failure_with_same_idempotency_key(first: ScriptedReply) -> None:
    with (
        ScriptedServer([first, ScriptedReply(200, b'{"id": "kb_1"}')]) as server,
        Client(server.address, "k") as client,
    ):
        assert client.knowledge_bases.create("a")["id"] == "kb_1"
    one, two = server.received
    assert one.body == two.body == json.dumps({"name": "a"}, separators=(",", ":")).encode()
    assert one.headers["Idempotency-Key"] == two.headers["Idempotency-Key"]


def test_client_retry_sends_file_from_beginning(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("The tern.")
    with (
        ScriptedServer([BUSY, ScriptedReply(202, b'{"id": "doc_1"}')]) as server,
        Client(server.address, "k") as client,
    ):
        client.documents.upload("kb", tmp_path / "a.txt", title="T")
        assert all(b"The tern." in each.body and b'name="title"' in each.body for each in server.received)
        assert len(server.received) == 2


def test_client_stream_upload_is_not_retried() -> None:
    with ScriptedServer([BUSY]) as server, Client(server.address, "k") as client:
        with pytest.raises(ServiceUnavailable):
            client.documents.upload("kb", io.BytesIO(b"The tern."), filename="a.txt")
        assert len(server.received) == 1


@pytest.mark.parametrize(
    ("reply", "error", "attempts"),
    [
        (BUSY, ServiceUnavailable, 3),
        (ScriptedReply(0), ConnectionFailed, 3),
        (ScriptedReply(500, b'{"detail": "Broken."}'), CarrelError, 1),
        (ScriptedReply(200, b"<html>"), UnexpectedReply, 1),
        (ScriptedReply(404, b"not found"), UnexpectedReply, 1),
    ],
)
def test_client_permanent_failure_raises_after_attempts(
    reply: ScriptedReply, error: type[Exception], attempts: int
) -> None:
    with ScriptedServer([reply]) as server, Client(server.address, "k", retries=2) as client:
        with pytest.raises(error):
            client.me()
        assert len(server.received) == attempts


def test_client_without_server_raises_connection_failed() -> None:
    with (
        Client("http://127.0.0.1:1", "k", retries=0) as client,
        pytest.raises(ConnectionFailed, match=r"127\.0\.0\.1:1"),
    ):
        client.me()
