"""Tenants and objects of the isolation tests, and ids of objects that do not exist."""

import asyncio
import secrets
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import asyncpg
import httpx2

from app.db.models.base import SYSTEM_TENANT
from app.documents.page_image_keys import format_image_key
from app.ids import decode_id, encode_id, generate_id
from harness.running_service import Service, Tenant

Ids = Mapping[str, str]
# Numbers that no other text contains.
IMAGE_NUMBER = "1234567890"
PAGE_NUMBER = "1234567891"
PROMOTED_FIELDS = {"promoted_user", "promoted_chat"}


def invent_ids(form: str) -> dict[str, str]:
    """Return well-formed ids of objects that do not exist. ``form`` is ``id`` or ``name`` for knowledge bases."""
    word = secrets.token_hex(6)
    return {
        "kb": f"only-{word}" if form == "name" else encode_id("kb", generate_id()),
        "kb_name": f"only-{word}",
        "document": encode_id("doc", generate_id()),
        "node": encode_id("nod", generate_id()),
        "chunk": encode_id("chk", generate_id()),
        "correction": encode_id("cor", generate_id()),
        "entity": f"ent_{secrets.token_hex(4)}",
        "api_key": encode_id("key", generate_id()),
        "deletion": encode_id("del", generate_id()),
        "job": encode_id("job", generate_id()),
        "webhook": encode_id("whk", generate_id()),
        "delivery": encode_id("dlv", generate_id()),
        "golden_set": encode_id("gold", generate_id()),
        "item": encode_id("item", generate_id()),
        "evaluation": encode_id("eval", generate_id()),
        "n": IMAGE_NUMBER,
        "page": PAGE_NUMBER,
        "prompt": "rewrite",
        "number": "1",
        "tenant": encode_id("ten", generate_id()),
        "taken": f"only-{secrets.token_hex(6)}",
        "external_id": f"external-{word}",
        "user_id": f"user-{word}",
        "chat_id": f"chat-{word}",
        "agent_id": f"agent-{word}",
        "file": encode_id("file", generate_id()),
        "vector_store_file": encode_id("file", generate_id()),
        "batch": encode_id("vsfb", generate_id()),
        "promoted_user": f"promoted-user-{word}",
        "promoted_chat": f"promoted-chat-{word}",
    }


def create_objects(tenant: Tenant, text: str, *, fields: Iterable[str], form: str) -> dict[str, str]:
    """Create the objects of a tenant that ``fields`` names, and return their ids."""
    ids = invent_ids(form)
    wanted = set(fields)
    ids["tenant"], name = tenant.id, ids["taken"]
    created = tenant.admin.post("/v1/knowledge-bases", json={"name": name})
    created.raise_for_status()
    ids["kb"], ids["kb_name"] = name if form == "name" else created.json()["id"], name
    if wanted & {"document", "external_id", "chunk", "entity", "correction", "item", "evaluation"}:
        # A document that will be promoted is uploaded to a chat.
        scope = {"chat_id": ids["promoted_chat"], "agent_id": "a"} if wanted & PROMOTED_FIELDS else {}
        ids["document"] = _add_document(tenant, text, name, external_id=ids["external_id"], wanted=wanted, **scope)
    for state in wanted & {"building", "retired"}:
        asyncio.run(_add_generation(tenant, name, state))
    _add_images(tenant, ids, wanted)
    if wanted & {"node", "chunk"}:
        chunk = tenant.admin.get(f"/v1/knowledge-bases/{name}/documents/{ids['document']}/chunks").json()["items"][0]
        ids["node"], ids["chunk"] = chunk["node_path"][-1], chunk["id"]
    _add_entities(tenant, name, ids, wanted)
    _add_claims(tenant, text, name, ids, wanted)
    _add_golden_set(tenant, text, ids, wanted)
    _add_evaluation(tenant, ids, wanted)
    _add_outlets(tenant, name, ids, wanted)
    if "number" in wanted:
        _add_prompts(tenant, name, ids["agent_id"] if "agent_id" in wanted else None)
    _add_files(tenant, text, name, ids, wanted)
    if "deletion" in wanted:
        deleted = tenant.add_text("Soon gone.", kb=name)["id"]
        reply = tenant.admin.delete(f"/v1/knowledge-bases/{name}/documents/{deleted}")
        ids["deletion"] = reply.headers["carrel-deletion-id"]
    if "job" in wanted:
        ids["job"] = asyncio.run(_add_failed_job(tenant, name))
    if "api_key" in wanted:
        ids["api_key"] = tenant.admin.post("/v1/api-keys", json={"name": "a key", "role": "reader"}).json()["id"]
    if "tenant" in wanted:
        ids["tenant"] = tenant.service.create_tenant("another").id
    return ids


def _add_images(tenant: Tenant, ids: Ids, wanted: set[str]) -> None:
    """Add an image and the image of a page to the document."""
    if "n" in wanted:
        asyncio.run(add_image(tenant, ids["document"]))
    if "page" in wanted:
        asyncio.run(_add_page_image(tenant, ids["document"]))


def _add_entities(tenant: Tenant, name: str, ids: dict[str, str], wanted: set[str]) -> None:
    """Find an entity of the document, and split it there."""
    if wanted & {"entity", "correction"}:
        graph = tenant.admin.get(f"/v1/knowledge-bases/{name}/documents/{ids['document']}/graph").json()
        ids["entity"] = next((node["id"] for node in graph["nodes"]), ids["entity"])
    if "correction" in wanted:
        path = f"/v1/knowledge-bases/{name}/entities"
        split = {"entity": ids["entity"], "documents": [ids["document"]], "name": "Another name"}
        tenant.admin.post(f"{path}/split", json=split).raise_for_status()
        ids["correction"] = tenant.admin.get(f"{path}/corrections").json()["items"][0]["id"]


def _add_golden_set(tenant: Tenant, text: str, ids: dict[str, str], wanted: set[str]) -> None:
    """Add a golden set, with an item if it is wanted."""
    if wanted & {"golden_set", "item", "evaluation"}:
        created = tenant.admin.post("/v1/golden-sets", json={"name": text[:100]})
        ids["golden_set"] = created.raise_for_status().json()["id"]
    if wanted & {"item", "evaluation"}:
        chunks = tenant.admin.get(f"/v1/knowledge-bases/{ids['kb_name']}/documents/{ids['document']}/chunks").json()[
            "items"
        ]
        # With two entries, one can be removed.
        relevant = [{"document": ids["document"]}, {"document": ids["document"], "chunk": chunks[0]["id"]}]
        item = {"query": text, "relevant": relevant}
        added = tenant.admin.post(f"/v1/golden-sets/{ids['golden_set']}/items", json={"items": [item]})
        ids["item"] = added.raise_for_status().json()["items"][0]["id"]


def _add_evaluation(tenant: Tenant, ids: dict[str, str], wanted: set[str]) -> None:
    """Run an evaluation of the golden set to its end. Two tests may run at the same time, so a refusal is repeated."""
    if "evaluation" not in wanted:
        return
    deadline = time.monotonic() + 60
    body = {"set": ids["golden_set"], "settings": [{}]}
    while (started := tenant.admin.post("/v1/evaluations", json=body)).status_code == 429:
        assert time.monotonic() < deadline, started.text
        time.sleep(0.05)
    ids["evaluation"] = started.raise_for_status().json()["id"]
    path = f"/v1/evaluations/{ids['evaluation']}"
    while tenant.admin.get(path).raise_for_status().json()["state"] in ("queued", "running"):
        assert time.monotonic() < deadline, path
        time.sleep(0.05)


def _add_claims(tenant: Tenant, text: str, kb: str, ids: Ids, wanted: set[str]) -> None:
    """Add a text of a user, texts of chats with and without a user, and an agent with session scope."""
    if "user_id" in wanted:
        tenant.add_text(text, kb=kb, user_id=ids["user_id"])
    if "chat_id" in wanted:
        tenant.add_text(text, kb=kb, chat_id=ids["chat_id"], agent_id=ids["agent_id"])
    if {"user_id", "chat_id"} <= wanted:
        tenant.add_text(text, kb=kb, user_id=ids["user_id"], chat_id=ids["chat_id"])
    if "agent_id" in wanted:
        binding = {"knowledge_bases": [kb], "session_scope": True}
        tenant.admin.put(f"/v1/agents/{ids['agent_id']}", json=binding).raise_for_status()


def _add_outlets(tenant: Tenant, kb: str, ids: dict[str, str], wanted: set[str]) -> None:
    """Add a webhook with a delivery and an SQL view, and switch the enrichment on."""
    if "enriching" in wanted:
        enrichment = {"enrichment": {"enabled": True}}
        tenant.admin.patch(f"/v1/knowledge-bases/{kb}", json=enrichment).raise_for_status()
    if wanted & {"webhook", "delivery"}:
        ids["webhook"], ids["delivery"] = asyncio.run(_add_webhook(tenant))
    if "sql_view" in wanted:
        allowed = {"sql_views": True}
        tenant.service.operator.patch(f"/v1/tenants/{tenant.id}", json=allowed).raise_for_status()
        tenant.admin.post(f"/v1/knowledge-bases/{kb}/sql-view").raise_for_status()


def _add_prompts(tenant: Tenant, kb: str, agent_id: str | None) -> None:
    """Add two prompt versions to the knowledge base and to the agent. The second version is in use."""
    for prompt in ("First say this.", "Then say that."):
        changes = {"retrieval": {"rewrite_prompt": prompt}}
        tenant.admin.patch(f"/v1/knowledge-bases/{kb}", json=changes).raise_for_status()
        if agent_id is not None:
            tenant.admin.patch(f"/v1/agents/{agent_id}", json={"rewrite_prompt": prompt}).raise_for_status()


def _add_files(tenant: Tenant, text: str, kb: str, ids: dict[str, str], wanted: set[str]) -> None:
    """Add a file, and another file that is attached to a vector store, alone or in a batch."""
    for name in ("file", "vector_store_file"):
        if name in wanted or (name == "vector_store_file" and "batch" in wanted):
            part = {"file": ("a.txt", f"{text} {name}".encode())}
            created = tenant.admin.post("/openai/v1/files", files=part, data={"purpose": "assistants"})
            created.raise_for_status()
            ids[name] = created.json()["id"]
    store = f"/openai/v1/vector_stores/{kb}"
    if "batch" in wanted:
        batch = tenant.admin.post(f"{store}/file_batches", json={"file_ids": [ids["vector_store_file"]]})
        batch.raise_for_status()
        ids["batch"] = batch.json()["id"]
        wait_until_done(tenant.admin, f"{store}/file_batches/{ids['batch']}")
    elif "vector_store_file" in wanted:
        tenant.admin.post(f"{store}/files", json={"file_id": ids["vector_store_file"]}).raise_for_status()


def wait_until_done(client: httpx2.Client, path: str) -> None:
    """Wait until the files of a batch or of a vector store are attached and ingested."""
    deadline = time.monotonic() + 60
    while client.get(path).raise_for_status().json()["status"] == "in_progress":
        assert time.monotonic() < deadline, path
        time.sleep(0.02)


def _add_document(tenant: Tenant, text: str, kb: str, *, wanted: set[str], **fields: str) -> str:
    """Upload a text, or chunks if a request changes single chunks. Return the id of the document."""
    if "provided_chunks" not in wanted:
        return str(tenant.add_text(text, kb=kb, **fields)["id"])
    body = {"chunks": [{"text": text}, {"text": f"{text} again"}], **fields}
    created = tenant.admin.post(f"/v1/knowledge-bases/{kb}/documents", params={"wait": 60}, json=body)
    created.raise_for_status()
    return str(created.json()["id"])


ALL_FIELDS = (
    "webhook",
    "delivery",
    "document",
    "node",
    "chunk",
    "entity",
    "external_id",
    "user_id",
    "chat_id",
    "agent_id",
    "api_key",
    "deletion",
    "job",
    "n",
    "page",
    "number",
    "file",
    "vector_store_file",
    "batch",
    "sql_view",
    "golden_set",
    "item",
    "evaluation",
)


async def add_image(tenant: Tenant, document: str) -> None:
    """Add an image to a document, as ingestion with a vision model does."""
    owner, of = decode_id("ten", tenant.id), decode_id("doc", document)
    key = f"{owner}/{of}/{generate_id()}"
    (tenant.service.settings.server.data_dir / "objects" / key).write_bytes(b"picture")
    connection = await asyncpg.connect(tenant.service.urls.owner)
    await connection.execute(
        "insert into document_image values ($1, $2, 1, $3, $4, 'image/png', 7, 64, 64, '\\x00')",
        owner, of, int(IMAGE_NUMBER), key,
    )  # fmt: skip
    await connection.close()


async def _add_page_image(tenant: Tenant, document: str) -> None:
    """Add a cached image of a page to a document, which counts as a PDF file from then on."""
    connection = await asyncpg.connect(tenant.service.urls.owner)
    original = await connection.fetchval(
        "update document d set media_type = 'application/pdf' from document_object o"
        " where d.id = $1 and o.document_id = d.id returning o.key",
        decode_id("doc", document),
    )
    await connection.close()
    key = format_image_key(original, page=int(PAGE_NUMBER), scale=1.0)
    path = tenant.service.settings.server.data_dir / "objects" / key
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"page")


async def _add_generation(tenant: Tenant, kb: str, state: str) -> None:
    """Add a search index to the knowledge base: a generation whose build failed, or a retired generation."""
    connection = await asyncpg.connect(tenant.service.urls.owner)
    await connection.execute(
        "insert into search_index (tenant_id, kb_id, id, identity, dim, state, settings, started_at, retired_at, error)"
        " select i.tenant_id, i.kb_id, $3, i.identity, i.dim, $4,"
        "   jsonb_build_object('chunking', k.chunking, 'language', k.language), now(),"
        "   case when $4 = 'retired' then now() end,"
        "   case when $4 = 'building' then jsonb_build_object('code', 'c', 'message', 'm') end"
        "   from search_index i join knowledge_base k on k.tenant_id = i.tenant_id and k.id = i.kb_id"
        "  where k.tenant_id = $1 and k.name = $2",
        decode_id("ten", tenant.id), kb, generate_id(), state,
    )  # fmt: skip
    await connection.close()


async def _add_webhook(tenant: Tenant) -> tuple[str, str]:
    """Add a webhook without a receiver and a dead delivery, which no worker changes."""
    owner, webhook, delivery = decode_id("ten", tenant.id), generate_id(), generate_id()
    connection = await asyncpg.connect(tenant.service.urls.owner)
    await connection.execute(
        "insert into webhook (tenant_id, id, url, events, secret)"
        " values ($1, $2, 'http://127.0.0.1:9/', '{quota.near}', '\\x00')",
        owner, webhook,
    )  # fmt: skip
    await connection.execute(
        "insert into webhook_delivery (tenant_id, id, webhook_id, event, data, status)"
        " values ($1, $2, $3, 'quota.near', '{}', 'dead')",
        owner, delivery, webhook,
    )  # fmt: skip
    await connection.close()
    return encode_id("whk", webhook), encode_id("dlv", delivery)


async def _add_failed_job(tenant: Tenant, kb: str) -> str:
    """Add a failed job of the knowledge base, which no worker changes."""
    job = generate_id()
    connection = await asyncpg.connect(tenant.service.urls.owner)
    await connection.execute(
        "insert into job (tenant_id, id, kind, state, error, payload)"
        """ select $1, $2, 'purge_objects', 'dead', '{"code": "internal", "message": "m"}',"""
        "   jsonb_build_object('knowledge_base', k.id) from knowledge_base k where k.tenant_id = $1 and k.name = $3",
        decode_id("ten", tenant.id), job, kb,
    )  # fmt: skip
    await connection.close()
    return encode_id("job", job)


@dataclass(frozen=True)
class Attacker:
    """Caller that requests foreign objects: a client with an API key, and the ids that the key may read."""

    name: str
    client: httpx2.Client
    ids: Mapping[str, Ids]


@dataclass(frozen=True)
class IsolationTenants:
    """Owner tenant A, and the attackers: keys of tenant B and restricted keys of tenant A."""

    owning_tenant: Tenant
    owned_ids: Mapping[str, Ids]
    attackers: tuple[Attacker, ...]

    def get_owner_client(self, *, operators: bool) -> httpx2.Client:
        """Return the client of the operator or of the owner's administrator."""
        return self.owning_tenant.service.operator if operators else self.owning_tenant.admin


def build_forms(ids: dict[str, str], tenant: Tenant) -> dict[str, Ids]:
    """Return the ids in both forms: with the name and with the id of the knowledge base."""
    existing = tenant.admin.get(f"/v1/knowledge-bases/{ids['kb']}").json()
    return {"name": {**ids, "kb": existing["name"]}, "id": {**ids, "kb": existing["id"]}}


def create_isolation_tenants(service: Service, secret: str) -> IsolationTenants:
    """Create tenants A and B with all objects, and the attackers."""
    a, b = service.create_tenant("a"), service.create_tenant("b")
    shared = build_forms(create_objects(a, f"The {secret} flies.", fields=ALL_FIELDS, form="name"), a)
    others = build_forms(create_objects(a, "Another text of A.", fields=ALL_FIELDS, form="name"), a)
    theirs = build_forms(create_objects(b, "A text of B.", fields=ALL_FIELDS, form="name"), b)
    narrowing = {"knowledge_bases": [others["name"]["kb"]]}
    roles = ("admin", "writer", "reader")
    attackers = [Attacker(f"B's {role}", b.create_client(role), theirs) for role in roles]
    attackers += [Attacker(f"A's narrowed {role}", a.create_client(role, **narrowing), others) for role in roles]
    for ids in (shared, others, theirs):
        _add_operator_knowledge_base(service, ids["name"]["kb"])
    return IsolationTenants(a, shared, tuple(attackers))


def get_operator_tenant(service: Service) -> Tenant:
    """Return the operator as a tenant. All tenants can read the operator's knowledge bases."""
    return Tenant(service, encode_id("ten", SYSTEM_TENANT), "", service.operator)


def _add_operator_knowledge_base(service: Service, name: str) -> None:
    """Give the operator a knowledge base with the same name, which must not weaken isolation."""
    operator = get_operator_tenant(service)
    operator.admin.post("/v1/knowledge-bases", json={"name": name}).raise_for_status()
    operator.add_text("A text that every tenant may read.", kb=name)
