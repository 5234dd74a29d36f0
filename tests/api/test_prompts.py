"""Prompt versions of knowledge bases and agents: numbered, listed and pinned."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import asyncpg
import pytest

from app.agents.types import BindingSettings, BoundAgent
from app.api.v1.search.agent_binding import apply_binding
from app.ids import decode_id, generate_id
from app.principal import Principal, Role
from app.prompts.types import ActivePrompt
from app.retrieval.types import SearchRequest
from harness.running_service import Tenant
from tests.api.audit import events
from tests.api.problems import assert_problem
from tests.api.test_deletions import finished

DEFAULT = "/v1/knowledge-bases/default"


@dataclass(frozen=True)
class PromptTarget:
    """An owner of prompts: a knowledge base or an agent."""

    tenant: Tenant
    path: str
    named: Callable[[dict[str, Any]], dict[str, Any]]

    def set(self, **prompts: str | None) -> None:
        """Change the prompts as settings. A knowledge base's retrieval settings are replaced as a whole."""
        self.tenant.admin.patch(self.path, json=self.named(prompts)).raise_for_status()

    def text(self, name: str = "rewrite") -> str | None:
        """Return the text of a prompt in the settings."""
        shown = self.tenant.admin.get(self.path).json()
        found: str | None = shown.get("retrieval", shown).get(f"{name}_prompt")
        return found

    def versions(self, **query: Any) -> list[tuple[str, int, str, bool]]:
        """Return the versions, newest first."""
        reply = self.tenant.admin.get(f"{self.path}/prompts", params=query)
        assert reply.status_code == 200, reply.text
        items = reply.json()["items"]
        return [(one["prompt"], one["number"], one["text"], one["in_use"]) for one in items]

    def pin(self, name: str, number: int) -> dict[str, Any]:
        reply = self.tenant.admin.post(f"{self.path}/prompts/{name}/{number}/pin")
        assert reply.status_code == 200, reply.text
        found: dict[str, Any] = reply.json()
        return found


@pytest.fixture(params=["knowledge base", "agent"])
def owner(request: pytest.FixtureRequest, tenant: Tenant) -> PromptTarget:
    if request.param == "knowledge base":
        return PromptTarget(tenant, DEFAULT, lambda prompts: {"retrieval": prompts})
    tenant.admin.put("/v1/agents/agt", json={"knowledge_bases": ["default"]}).raise_for_status()
    return PromptTarget(tenant, "/v1/agents/agt", lambda prompts: prompts)


@pytest.mark.capability("prompts-versions")
def test_prompt_versions_are_numbered(owner: PromptTarget) -> None:
    assert owner.versions() == []
    owner.set(rewrite_prompt="Say van.")
    owner.set(rewrite_prompt="Say van.")
    assert owner.versions() == [("rewrite", 1, "Say van.", True)]
    owner.set(rewrite_prompt=" Say car.\n")
    assert owner.versions() == [("rewrite", 2, "Say car.", True), ("rewrite", 1, "Say van.", False)]
    owner.set(rewrite_prompt="Say van.")
    assert owner.versions() == [("rewrite", 2, "Say car.", False), ("rewrite", 1, "Say van.", True)]
    owner.set(rewrite_prompt=None)
    assert [in_use for *_, in_use in owner.versions()] == [False, False]
    owner.set(rewrite_prompt="Say bus.", answer_prompt="Say van.")
    assert owner.versions(prompt="answer") == [("answer", 1, "Say van.", True)]
    assert [number for _, number, *_ in owner.versions(prompt="rewrite")] == [3, 2, 1]


@pytest.mark.capability("prompts-pinned")
def test_prompt_version_can_be_pinned(owner: PromptTarget) -> None:
    for text in ("Say van.", "Say car."):
        owner.set(rewrite_prompt=text, answer_prompt="Be brief.")
    made = {
        one["number"]: one for one in owner.tenant.admin.get(f"{owner.path}/prompts?prompt=rewrite").json()["items"]
    }
    before = events(owner.tenant.admin)
    assert owner.pin("rewrite", 1) == made[1] | {"in_use": True}
    assert (owner.text(), owner.text("answer")) == ("Say van.", "Be brief.")
    assert [in_use for *_, in_use in owner.versions(prompt="rewrite")] == [False, True]
    told = events(owner.tenant.admin)[len(before) :]
    assert [event["action"].partition(".")[2] for event in told] == ["update"]
    owner.pin("rewrite", 1)
    assert events(owner.tenant.admin)[len(before) :] == told
    assert made[2]["key"] == owner.tenant.admin.get("/v1/me").json()["key"]["id"]


def test_prompt_versions_are_paged(owner: PromptTarget) -> None:
    for number in range(5):
        owner.set(rewrite_prompt=f"Say {number}.", answer_prompt=f"Answer {number}.")
    seen: list[tuple[str, int]] = []
    query: dict[str, Any] = {"limit": 3}
    while True:
        page = owner.tenant.admin.get(f"{owner.path}/prompts", params=query).json()
        seen += [(one["prompt"], one["number"]) for one in page["items"]]
        if page["next_cursor"] is None:
            break
        query["cursor"] = page["next_cursor"]
    assert [number for _, number in seen] == [5, 5, 4, 4, 3, 3, 2, 2, 1, 1]
    assert len(set(seen)) == 10


@pytest.mark.parametrize(
    ("place", "status", "code"),
    [
        ("rewrite/2", 404, "prompt_version_not_found"),
        ("answer/1", 404, "prompt_version_not_found"),
        ("rewrite/2147483647", 404, "prompt_version_not_found"),
        ("rewrite/0", 422, "invalid"),
        ("rewrite/2147483648", 422, "invalid"),
        ("rewrite/one", 422, "invalid"),
        ("guess/1", 422, "invalid"),
    ],
)
def test_prompt_unknown_version_cannot_be_pinned(owner: PromptTarget, place: str, status: int, code: str) -> None:
    owner.set(rewrite_prompt="Say van.")
    assert_problem(owner.tenant.admin.post(f"{owner.path}/prompts/{place}/pin"), status, code)
    assert owner.text() == "Say van."


def test_prompts_of_unknown_owner_are_404(tenant: Tenant) -> None:
    for path, code in (
        ("/v1/agents/nobody", "agent_not_found"),
        ("/v1/knowledge-bases/nothing", "knowledge_base_not_found"),
    ):
        assert_problem(tenant.admin.get(f"{path}/prompts"), 404, code)
        assert_problem(tenant.admin.post(f"{path}/prompts/rewrite/1/pin"), 404, code)


def test_prompts_with_restricted_key_are_403(owner: PromptTarget) -> None:
    owner.set(rewrite_prompt="Say van.")
    client = owner.tenant.create_client("admin", user_id="u")
    assert_problem(client.get(f"{owner.path}/prompts"), 403, "forbidden")
    assert_problem(client.post(f"{owner.path}/prompts/rewrite/1/pin"), 403, "forbidden")


def test_create_knowledge_base_with_prompt_creates_first_version(tenant: Tenant) -> None:
    body = {"name": "vans", "retrieval": {"rewrite_prompt": "Say van.", "answer_prompt": "Be brief."}}
    tenant.admin.post("/v1/knowledge-bases", json=body).raise_for_status()
    vans = PromptTarget(tenant, "/v1/knowledge-bases/vans", lambda prompts: {"retrieval": prompts})
    assert sorted(vans.versions()) == [("answer", 1, "Be brief.", True), ("rewrite", 1, "Say van.", True)]
    tenant.admin.put("/v1/agents/vans", json={"knowledge_bases": ["vans"], "answer_prompt": "Be kind."})
    assert PromptTarget(tenant, "/v1/agents/vans", dict).versions() == [("answer", 1, "Be kind.", True)]
    gone = tenant.admin.delete("/v1/knowledge-bases/vans").raise_for_status()
    assert finished(tenant, gone.headers["carrel-deletion-id"])["remaining"]["prompt_version"] == 0
    assert PromptTarget(tenant, "/v1/agents/vans", dict).versions() == [("answer", 1, "Be kind.", True)]


async def test_delete_binding_deletes_prompt_versions(tenant: Tenant) -> None:
    for _ in range(2):
        body = {"knowledge_bases": [], "rewrite_prompt": "Say van."}
        tenant.admin.put("/v1/agents/agt", json=body).raise_for_status()
        assert PromptTarget(tenant, "/v1/agents/agt", dict).versions() == [("rewrite", 1, "Say van.", True)]
        tenant.admin.delete("/v1/agents/agt").raise_for_status()
    connection = await asyncpg.connect(tenant.service.urls.owner)
    left = "select count(*) from prompt_version where tenant_id = $1"
    assert await connection.fetchval(left, decode_id("ten", tenant.id)) == 0
    await connection.close()


@pytest.mark.capability("prompts-explained")
def test_explain_names_prompt_version_used(tenant: Tenant) -> None:
    def explained(path: str = f"{DEFAULT}/search", **body: Any) -> dict[str, Any]:
        reply = tenant.admin.post(path, json={"query": "van", "explain": True, **body}).raise_for_status()
        found: dict[str, Any] = reply.json()["explain"]["prompts"]
        return found

    wished: dict[str, Any] = {"transformers": ["prompt_rewrite"]}
    assert explained(**wished) == {}
    for text in ("Say van.", "Say car."):
        tenant.admin.patch(DEFAULT, json={"retrieval": {"rewrite_prompt": text}}).raise_for_status()
    assert explained(**wished) == {"rewrite": {"owner": "default", "version": 2}}
    tenant.admin.post(f"{DEFAULT}/prompts/rewrite/1/pin").raise_for_status()
    assert explained(**wished) == {"rewrite": {"owner": "default", "version": 1}}
    assert explained() == {}
    tenant.admin.post("/v1/knowledge-bases", json={"name": "another"}).raise_for_status()
    assert explained("/v1/search", **wished) == {}


@pytest.mark.capability("agent-binding-prompts")
def test_agent_prompts_apply_to_its_search() -> None:
    settings = BindingSettings(rewrite_prompt="Say van.", rewrite_prompt_version=3, transformers=[])
    at = "2026-01-01T00:00:00+00:00"
    binding = BoundAgent(generate_id(), "agt", [generate_id()], settings, at, at)  # type: ignore[arg-type]  # not read
    principal = Principal(generate_id(), "tenant", Role.READER)
    request = apply_binding(SearchRequest(), binding, principal, session_id=None)
    assert request.prompts == {"rewrite": ActivePrompt("Say van.", 3, "agt")}
    assert (request.transformers, request.stored_transformers) == (None, [])
