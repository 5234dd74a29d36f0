"""Agents: bindings, and their effect on searches."""

import asyncio
from typing import Any

import asyncpg
import httpx2
import pytest

from app.ids import decode_id
from harness.running_service import Service, Tenant
from tests.api.audit import events
from tests.api.problems import assert_problem
from tests.api.test_deletions import eventually, finished

AGENTS = "/v1/agents"
SEARCH = "/v1/agent-search"
ANIMALS = ("badgers", "camels", "dolphins", "eagles", "ferrets", "geese")
SETTINGS = {
    "session_scope": True, "strategy": "hybrid", "strategy_options": {"dense_weight": 0.2},
    "transformers": [{"name": "keywords", "options": {"max_keywords": 4}}], "rewrite_prompt": "Say it in a word.",
    "answer_prompt": "Be brief.", "filter": {"kind": ["bird", "fish"]}, "top_k": 3, "max_top_k": 4,
    "score_threshold": 0.1, "max_messages": 6, "timeout_seconds": 2.5, "citations": "prefix", "max_snippet_chars": 300,
    "rerank": False, "combine": "sum", "collapse": True,
}  # fmt: skip
DEFAULTS: dict[str, Any] = {
    "session_scope": False, "strategy": None, "strategy_options": {}, "transformers": None, "rewrite_prompt": None,
    "answer_prompt": None, "filter": None, "top_k": None, "max_top_k": None,
    "score_threshold": None, "max_messages": None, "timeout_seconds": None, "citations": "none",
    "max_snippet_chars": None, "rerank": None, "combine": None, "collapse": False,
}  # fmt: skip


@pytest.fixture(scope="module")
def zoo(service: Service) -> Tenant:
    """Two knowledge bases with a text about each animal, and a text of one chat in ``default``."""
    tenant = service.create_tenant("zoo")
    tenant.admin.post("/v1/knowledge-bases", json={"name": "night"}).raise_for_status()
    for animal in ANIMALS:
        metadata = {"kind": "bird" if animal in ("eagles", "geese") else "mammal"}
        tenant.add_text(f"The {animal} are fed by day by the keepers of the zoo.", title=animal, metadata=metadata)
        tenant.add_text(f"The {animal} sleep by night in the houses of the zoo.", kb="night", metadata=metadata)
    tenant.add_text("The hamsters of this chat are fed by nobody.", chat_id="chat-1")
    tenant.add_text("The hermit crabs of this chat are fed by one agent.", chat_id="chat-1", agent_id="keeper")
    return tenant


def kb_id(tenant: Tenant, name: str) -> str:
    found: str = tenant.admin.get(f"/v1/knowledge-bases/{name}").json()["id"]
    return found


def bind(tenant: Tenant, agent: str, *knowledge_bases: str, **settings: Any) -> dict[str, Any]:
    reply = tenant.admin.put(f"{AGENTS}/{agent}", json={"knowledge_bases": list(knowledge_bases), **settings})
    assert reply.is_success, reply.text
    made: dict[str, Any] = reply.json()
    return made


def ask(client: httpx2.Client, agent: Any, *said: str, route: str = SEARCH, **more: Any) -> list[str]:
    messages = [{"role": "customer", "content": content} for content in said or ("Who feeds the animals of the zoo?",)]
    reply = client.post(route, json={"messages": messages, "agent_id": agent, **more})
    assert reply.status_code == 200, reply.text
    found: list[str] = reply.json()
    return found


@pytest.mark.capability("agent-binding")
def test_binding_crud_returns_its_state(tenant: Tenant) -> None:
    path = f"{AGENTS}/agt_1"
    reply = tenant.admin.put(path, json={"knowledge_bases": ["default", kb_id(tenant, "default")], **SETTINGS})
    assert reply.status_code == 201
    made = reply.json()
    assert decode_id("bnd", made["id"])
    assert {name: made[name] for name in SETTINGS} == SETTINGS
    assert (made["agent_id"], made["knowledge_bases"]) == ("agt_1", [kb_id(tenant, "default")])
    assert tenant.admin.get(path).json() == made
    assert tenant.admin.get(AGENTS).json() == {"items": [made], "next_cursor": None}

    changed = tenant.admin.patch(path, json={"max_top_k": 2, "filter": None, "strategy": "lexical"}).json()
    expected = {**SETTINGS, "max_top_k": 2, "filter": None, "strategy": "lexical", "strategy_options": {}}
    assert {name: changed[name] for name in SETTINGS} == expected
    assert changed["knowledge_bases"] == made["knowledge_bases"]
    assert changed["updated_at"] > made["updated_at"]
    assert tenant.admin.patch(path, json={"knowledge_bases": []}).json()["knowledge_bases"] == []

    unset = tenant.admin.patch(path, json=dict.fromkeys(SETTINGS))  # null is the same as no value
    assert {name: unset.json()[name] for name in DEFAULTS} == DEFAULTS
    tenant.admin.put(path, json={"knowledge_bases": ["default"], **SETTINGS}).raise_for_status()

    replaced = tenant.admin.put(path, json={"knowledge_bases": ["default"]})
    assert replaced.status_code == 200
    assert {name: replaced.json()[name] for name in DEFAULTS} == DEFAULTS
    assert (replaced.json()["id"], replaced.json()["created_at"]) == (made["id"], made["created_at"])

    assert tenant.admin.delete(path).status_code == 204
    for method in ("GET", "PATCH", "DELETE"):
        assert_problem(
            tenant.admin.request(method, path, json={} if method == "PATCH" else None), 404, "agent_not_found"
        )
    assert tenant.admin.get(AGENTS).json()["items"] == []


def test_binding_each_change_has_one_audit_event(tenant: Tenant) -> None:
    made = bind(tenant, "agt", "default")
    bind(tenant, "agt", "default")
    tenant.admin.patch(f"{AGENTS}/agt", json={}).raise_for_status()
    tenant.admin.patch(f"{AGENTS}/agt", json={"max_top_k": None, "knowledge_bases": ["default"]}).raise_for_status()
    bind(tenant, "agt", "default", max_top_k=3)
    tenant.admin.patch(f"{AGENTS}/agt", json={"max_top_k": 2}).raise_for_status()
    tenant.admin.delete(f"{AGENTS}/agt").raise_for_status()
    told = events(tenant.admin, object_id=made["id"])
    assert [event["action"] for event in told] == ["agent.create", "agent.update", "agent.update", "agent.delete"]
    assert {tuple(event["object"]["ids"]) for event in told} == {(made["id"],)}
    assert "agt" not in str(told)


@pytest.mark.capability("agent-binding")
def test_agents_are_listed_newest_first_in_pages(tenant: Tenant) -> None:
    names = [f"agt-{number}" for number in range(5)]
    for name in names:
        bind(tenant, name, "default")
    seen: list[str] = []
    query: dict[str, Any] = {"limit": 2}
    while True:
        page = tenant.admin.get(AGENTS, params=query).json()
        seen += [one["agent_id"] for one in page["items"]]
        if page["next_cursor"] is None:
            break
        query["cursor"] = page["next_cursor"]
    assert seen == names[::-1]


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({}, "knowledge_bases"),
        ({"knowledge_bases": None}, "knowledge_bases"),
        ({"knowledge_bases": "default"}, "knowledge_bases"),
        ({"knowledge_bases": ["default"] * 101}, "knowledge_bases"),
        ({"strategy": "guess"}, "strategy"),
        ({"strategy": "hybrid", "strategy_options": {"weight": 1}}, "strategy_options"),
        ({"strategy_options": {"dense_weight": 0.2}}, "strategy_options"),
        ({"transformers": ["magic"]}, "transformers"),
        ({"transformers": [{"name": "hyde", "options": {"size": 1}}]}, "transformers"),
        ({"rewrite_prompt": ""}, "rewrite_prompt"),
        ({"rewrite_prompt": "x" * 4001}, "rewrite_prompt"),
        ({"answer_prompt": "x" * 4001}, "answer_prompt"),
        ({"rewrite_prompt_version": 1}, "rewrite_prompt_version"),
        ({"filter": {"year": {"about": 2024}}}, "filter"),
        ({"filter": {"year": "a\0b"}}, "filter"),
        ({"top_k": 0}, "top_k"),
        ({"max_top_k": 501}, "max_top_k"),
        ({"score_threshold": 2}, "score_threshold"),
        ({"max_messages": 0}, "max_messages"),
        ({"max_messages": 21}, "max_messages"),
        ({"timeout_seconds": 0}, "timeout_seconds"),
        ({"timeout_seconds": 61}, "timeout_seconds"),
        ({"citations": "footnote"}, "citations"),
        ({"max_snippet_chars": 49}, "max_snippet_chars"),
        ({"session_scope": "chat"}, "session_scope"),
        ({"colour": "red"}, "colour"),
    ],
    ids=str,
)
def test_binding_with_invalid_body_is_422(tenant: Tenant, body: dict[str, Any], place: str) -> None:
    given = body if not body or "knowledge_bases" in body else {"knowledge_bases": ["default"], **body}
    assert place in str(assert_problem(tenant.admin.put(f"{AGENTS}/agt", json=given), 422, "invalid")["errors"])
    bind(tenant, "agt", "default")
    if body:
        assert_problem(tenant.admin.patch(f"{AGENTS}/agt", json=body), 422, "invalid")


def test_binding_with_unknown_knowledge_base_is_404(tenant: Tenant) -> None:
    body = {"knowledge_bases": ["default", "nothing"]}
    assert_problem(tenant.admin.put(f"{AGENTS}/agt", json=body), 404, "knowledge_base_not_found")
    assert_problem(tenant.admin.get(f"{AGENTS}/agt"), 404, "agent_not_found")
    bind(tenant, "agt", "default")
    assert_problem(tenant.admin.patch(f"{AGENTS}/agt", json=body), 404, "knowledge_base_not_found")


def test_binding_with_invalid_agent_id_is_422(tenant: Tenant) -> None:
    for agent in ("a" * 257, "a%00b"):
        assert_problem(tenant.admin.put(f"{AGENTS}/{agent}", json={"knowledge_bases": []}), 422, "invalid")
    assert bind(tenant, "%C3%A4%20%22b%22", "default")["agent_id"] == 'ä "b"'


def test_restricted_key_managing_agents_is_403(tenant: Tenant) -> None:
    bind(tenant, "agt", "default")
    for narrowing in ({"knowledge_bases": ["default"]}, {"user_id": "u"}):
        client = tenant.create_client("admin", **narrowing)
        body = {"knowledge_bases": ["default"]}
        for method, path in (("GET", ""), ("GET", "/agt"), ("PUT", "/agt"), ("PATCH", "/agt"), ("DELETE", "/agt")):
            reply = client.request(method, AGENTS + path, json=body if method in ("PUT", "PATCH") else None)
            assert_problem(reply, 403, "forbidden")


def test_binding_write_with_idempotency_key_is_replayed(tenant: Tenant) -> None:
    headers, body = {"Idempotency-Key": "once"}, {"knowledge_bases": ["default"]}
    first = tenant.admin.put(f"{AGENTS}/agt", json=body, headers=headers)
    tenant.admin.delete(f"{AGENTS}/agt").raise_for_status()
    again = tenant.admin.put(f"{AGENTS}/agt", json=body, headers=headers)
    assert (again.status_code, again.json()) == (201, first.json())
    assert again.headers["idempotent-replayed"] == "true"
    assert_problem(tenant.admin.get(f"{AGENTS}/agt"), 404, "agent_not_found")


@pytest.mark.capability("agent-binding-kbs")
def test_bound_agent_searches_its_knowledge_bases(zoo: Tenant) -> None:
    bind(zoo, "by-day", "default")
    bind(zoo, "by-night", kb_id(zoo, "night"))
    bind(zoo, "both", "night", "default")
    assert all("by day" in text for text in ask(zoo.admin, "by-day", top_k=12))
    assert all("by night" in text for text in ask(zoo.admin, "by-night", top_k=12))
    assert len(ask(zoo.admin, "both", top_k=12)) == 12
    for reader in (zoo.create_client("reader"), zoo.create_client("writer")):
        assert ask(reader, "by-night") == ask(zoo.admin, "by-night")


@pytest.mark.capability("agent-binding-path")
def test_agent_search_path_overrides_binding(zoo: Tenant) -> None:
    bind(zoo, "by-day", "default", max_top_k=2)
    found = ask(zoo.admin, "by-day", route="/v1/knowledge-bases/night/agent-search")
    assert len(found) == 2
    assert all("by night" in text for text in found)


@pytest.mark.capability("agent-binding-none")
def test_unknown_agent_searches_all_readable_knowledge_bases(zoo: Tenant) -> None:
    plain = ask(zoo.admin, None, top_k=20)
    assert len(plain) == 12
    unknowns: tuple[Any, ...] = ("nobody", "", 5, ["x"], {}, "x" * 257, "a\0b")
    for unknown in unknowns:
        assert ask(zoo.admin, unknown, top_k=20, session_id="chat-1") == plain, unknown


def test_agent_bound_to_nothing_gets_empty_array(zoo: Tenant) -> None:
    bind(zoo, "silent")
    for route in (SEARCH, "/v1/knowledge-bases/night/agent-search"):
        assert ask(zoo.admin, "silent", route=route) == []


@pytest.mark.capability("agent-binding-rights")
def test_binding_does_not_extend_rights_of_key(zoo: Tenant) -> None:
    bind(zoo, "both", "night", "default")
    bind(zoo, "by-day", "default")
    client = zoo.create_client("reader", knowledge_bases=["night"])
    assert {"by night" in text for text in ask(client, "both", top_k=12)} == {True}
    assert ask(client, "by-day") == []
    assert len(ask(client, "by-day", route="/v1/knowledge-bases/night/agent-search")) == 5


def test_binding_of_another_tenant_is_404(zoo: Tenant, tenant: Tenant) -> None:
    bind(zoo, "only-theirs")
    tenant.add_text("The keepers of the zoo feed animals here.")
    assert len(ask(tenant.admin, "only-theirs")) == 1
    assert_problem(tenant.admin.get(f"{AGENTS}/only-theirs"), 404, "agent_not_found")


@pytest.mark.capability("agent-binding-top-k")
@pytest.mark.parametrize(
    ("settings", "asked", "count"),
    [
        ({}, {}, 5),
        ({"top_k": 2}, {}, 2),
        ({"top_k": 2}, {"top_k": 4}, 4),
        ({"max_top_k": 3}, {}, 3),
        ({"max_top_k": 3}, {"top_k": 500}, 3),
        ({"max_top_k": 3}, {"top_k": 1}, 1),
        ({"top_k": 4, "max_top_k": 3}, {}, 3),
        ({"max_top_k": 500}, {}, 5),
        ({"filter": {"kind": "bird"}}, {}, 2),
        ({"strategy": "dense", "score_threshold": 0.999}, {}, 0),
        ({"strategy": "lexical"}, {"messages": [{"role": "user", "content": "geese"}]}, 1),
    ],
    ids=str,
)
def test_binding_max_top_k_limits_results(
    zoo: Tenant, settings: dict[str, Any], asked: dict[str, Any], count: int
) -> None:
    bind(zoo, "limited", "default", **settings)
    assert len(ask(zoo.admin, "limited", **asked)) == count


@pytest.mark.capability("agent-binding-session")
def test_session_scope_is_searched_only_if_binding_allows_it(zoo: Tenant) -> None:
    def seen(agent: str, session: Any = "chat-1", client: httpx2.Client = zoo.admin) -> set[str]:
        found = ask(client, agent, "hamsters and hermit crabs of this chat", top_k=20, session_id=session)
        return {word for word in ("hamsters", "hermit crabs") if any(word in text for text in found)}

    bind(zoo, "keeper", "default")
    assert seen("keeper") == set()
    bind(zoo, "keeper", "default", session_scope=True)
    bind(zoo, "guard", "default", session_scope=True)
    assert seen("keeper") == {"hamsters", "hermit crabs"}
    assert seen("guard") == {"hamsters"}
    for other in ("chat-2", None, "", 5, ["chat-1"], "a\0b"):
        assert seen("keeper", other) == set(), other
    # Neither of them owns the chat.
    assert seen("keeper", client=zoo.create_client("reader", user_id="u")) == set()


@pytest.mark.capability("talk-newest")
def test_agent_search_reads_only_newest_messages(zoo: Tenant) -> None:
    """With more messages, the question before is searched too, and the word in it finds its passage."""
    bind(zoo, "forgetful", "default", strategy="lexical", max_messages=1)
    assert len(ask(zoo.admin, "forgetful", "camels", "geese")) == 1
    bind(zoo, "forgetful", "default", strategy="lexical", max_messages=2)
    assert len(ask(zoo.admin, "forgetful", "camels", "geese")) == 2
    bind(zoo, "forgetful", "default", strategy="lexical", max_messages=2)
    later = [{"role": "tool", "content": "dolphins"}] * 5
    body = {"agent_id": "forgetful", "messages": [{"role": "customer", "content": "camels"}, *later]}
    assert "camels" in zoo.admin.post(SEARCH, json=body).json()[0]


@pytest.mark.capability("agent-binding-citations")
def test_binding_citations_and_snippet_length_apply(zoo: Tenant) -> None:
    document = zoo.admin.get("/v1/knowledge-bases/default/documents").json()["items"]
    source = next(one["source"] for one in document if one["title"] == "geese")
    whole = "The geese are fed by day by the keepers of the zoo."
    bind(zoo, "precise", "default", citations="prefix")
    assert ask(zoo.admin, "precise", "geese")[0] == f"[{source}] {whole}"
    bind(zoo, "precise", "default", citations="prefix", max_snippet_chars=50)
    assert ask(zoo.admin, "precise", "geese")[0] == f"[{source}] {whole}"[:50]
    bind(zoo, "precise", "default", max_snippet_chars=50)
    assert ask(zoo.admin, "precise", "geese")[0] == whole[:50]


def test_snippet_cut_to_hyphens_contains_no_separator(tenant: Tenant) -> None:
    tenant.add_text("Koalas sleep for almost all of the day and eat\n---------- and then they sleep again.")
    bind(tenant, "agt", "default", max_snippet_chars=52)
    (snippet,) = ask(tenant.admin, "agt", "koalas")
    assert snippet.splitlines()[-1] == "\u2014"


@pytest.mark.capability("agent-binding-strategy")
async def test_binding_with_removed_strategy_uses_default(zoo: Tenant) -> None:
    made = bind(zoo, "left-behind", "default", strategy="lexical")
    plain = ask(zoo.admin, None, "geese", route="/v1/knowledge-bases/default/agent-search")
    connection = await asyncpg.connect(zoo.service.urls.owner)
    for settings in ('{"strategy": "plug-in", "later": 1}', '{"strategy": "hybrid", "strategy_options": {"gone": 1}}'):
        where = "update agent_binding set settings = $1::jsonb where id = $2"
        await connection.execute(where, settings, decode_id("bnd", made["id"]))
        assert ask(zoo.admin, "left-behind", "geese") == plain
    await connection.close()


def test_deleted_knowledge_base_is_dropped_from_bindings(tenant: Tenant) -> None:
    tenant.add_text("The herons fish.")
    tenant.admin.post("/v1/knowledge-bases", json={"name": "brief"}).raise_for_status()
    tenant.add_text("The brief herons fish.", kb="brief")
    bind(tenant, "both", "brief", "default")
    bind(tenant, "alone", "brief")
    assert (len(ask(tenant.admin, "both", "herons")), len(ask(tenant.admin, "alone", "herons"))) == (2, 1)
    gone = tenant.admin.delete("/v1/knowledge-bases/brief").raise_for_status()
    assert finished(tenant, gone.headers["carrel-deletion-id"])["remaining"]["agent_binding"] == 0
    assert ask(tenant.admin, "both", "herons") == ["The herons fish."]
    assert ask(tenant.admin, "alone", "herons") == []
    found = {one["agent_id"]: one["knowledge_bases"] for one in tenant.admin.get(AGENTS).json()["items"]}
    assert found == {"both": [kb_id(tenant, "default")], "alone": []}


def test_knowledge_base_deleted_during_binding_is_left_out(tenant: Tenant) -> None:
    """The deletion is not committed, so other transactions do not see it. The binding waits for it."""
    tenant.admin.post("/v1/knowledge-bases", json={"name": "brief"}).raise_for_status()
    brief = decode_id("kb", kb_id(tenant, "brief"))
    waiting = "select count(*) from pg_locks where not granted and pid <> pg_backend_pid()"

    async def deleting() -> dict[str, Any]:
        connection = await asyncpg.connect(tenant.service.urls.owner)
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute("update knowledge_base set deleted_at = now(), name = '~' where id = $1", brief)
        binding = asyncio.create_task(asyncio.to_thread(bind, tenant, "agt", "brief", "default"))
        while not binding.done() and await connection.fetchval(waiting) == 0:
            await asyncio.sleep(0.01)
        assert not binding.done()
        await transaction.commit()
        await connection.close()
        return await binding

    assert asyncio.run(deleting())["knowledge_bases"] == [kb_id(tenant, "default")]


def test_deleted_tenant_deletes_bindings(service: Service) -> None:
    tenant = service.create_tenant("brief")
    bind(tenant, "agt", "default")
    gone = service.operator.delete(f"/v1/tenants/{tenant.id}").raise_for_status()
    path = f"/v1/deletions/{gone.headers['carrel-deletion-id']}"
    eventually(lambda: service.operator.get(path).json()["finished_at"] is not None)
    assert service.operator.get(path).json()["remaining"]["agent_binding"] == 0
