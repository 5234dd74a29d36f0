"""Results whose text is already in the conversation: demoted, excluded or allowed."""

import json
from typing import Any

import pytest

from harness.running_service import Service, Tenant
from tests.api.problems import assert_problem

PASSAGES = [
    "Rentals can be cancelled free of charge until 24 hours before pickup; after that, the first day is charged.",
    "One-way rentals can be cancelled free of charge until 48 hours before pickup, in all countries of the union.",
    "Vans can be cancelled free of charge until 72 hours before pickup, and only by phone or at the counter.",
    "A cancelled rental is paid back within five days to the card that was used for the payment of the rental.",
    "If a flight is late, the rental is kept for three hours, and it is not cancelled without a call by us.",
    "Rentals of more than 28 days are cancelled in writing, with a notice of one week before the end.",
    "| Car | Fee for cancelling |\n| --- | --- |\n| Polo | 20 |\n| Golf | 30 |\n| Passat | 45 |",
]
QUESTION = "Until when can I cancel a rental free of charge?"


@pytest.fixture(scope="module")
def office(service: Service) -> Tenant:
    tenant = service.create_tenant("office")
    for passage in PASSAGES:
        tenant.add_text(passage)
    return tenant


def build_messages(*repeated: str, role: str = "agent") -> list[dict[str, Any]]:
    earlier = [{"role": role, "content": text} for text in repeated]
    return [{"role": "customer", "content": "I have a rental."}, *earlier, {"role": "customer", "content": QUESTION}]


def search(tenant: Tenant, messages: list[dict[str, Any]], **body: Any) -> list[dict[str, Any]]:
    reply = tenant.admin.post("/v1/knowledge-bases/default/search", json={"messages": messages, **body})
    assert reply.status_code == 200, reply.text
    results: list[dict[str, Any]] = reply.json()["results"]
    return results


def texts_of(results: list[dict[str, Any]]) -> list[str]:
    return [result["text"] for result in results]


def ask_agent(tenant: Tenant, messages: list[dict[str, Any]], **body: Any) -> list[str]:
    reply = tenant.admin.post("/v1/agent-search", json={"messages": messages, **body})
    assert reply.status_code == 200, reply.text
    found: list[str] = reply.json()
    return found


@pytest.mark.parametrize("strategy", ["hybrid", "dense", "lexical"])
@pytest.mark.parametrize("repeated", [1, 2, 3])
def test_search_repeated_passages_come_last(office: Tenant, strategy: str, repeated: int) -> None:
    everything = texts_of(search(office, build_messages(), top_k=7, strategy=strategy))
    messages = build_messages("\n---\n".join(everything[:repeated]))
    expected = [*everything[repeated:], *everything[:repeated]]
    found = search(office, messages, top_k=7, strategy=strategy)
    assert texts_of(found) == expected
    scores = [result["score"] for result in found]
    assert scores == sorted(scores, reverse=True)
    for top_k in (1, 3, 5):
        assert texts_of(search(office, messages, top_k=top_k, strategy=strategy)) == expected[:top_k]


def test_search_exclude_fills_up_with_other_passages(office: Tenant) -> None:
    everything = texts_of(search(office, build_messages(), top_k=7))
    messages = build_messages(*everything[:2], role="tool")
    assert texts_of(search(office, messages, top_k=5, repeat="exclude")) == everything[2:]
    assert texts_of(search(office, messages, top_k=3, repeat="exclude")) == everything[2:5]
    assert search(office, build_messages(*everything), top_k=5, repeat="exclude") == []


def test_search_demote_returns_top_k_results_if_all_repeat(office: Tenant) -> None:
    everything = texts_of(search(office, build_messages(), top_k=7))
    messages = build_messages("\n---\n".join(everything))
    assert texts_of(search(office, messages, top_k=5)) == everything[:5]


def test_search_allow_changes_nothing(office: Tenant) -> None:
    everything = search(office, build_messages(), top_k=7)
    messages = build_messages("\n---\n".join(texts_of(everything)[:3]))
    assert search(office, messages, top_k=7, repeat="allow") == everything


@pytest.mark.parametrize("role", ["user", "customer"])
def test_search_text_of_the_customer_is_not_demoted(office: Tenant, role: str) -> None:
    """A customer who quotes a passage asks about it."""
    messages = [{"role": role, "content": PASSAGES[1]}]
    assert texts_of(search(office, messages, top_k=3))[0] == PASSAGES[1]


def test_search_repeat_applies_to_queries_with_messages(office: Tenant) -> None:
    body = {"query": QUESTION, "top_k": 7}
    first = texts_of(search(office, build_messages(), **body))[0]
    assert texts_of(search(office, build_messages(first), **body))[-1] == first
    assert first not in texts_of(search(office, build_messages(first), **body, repeat="exclude"))


def test_search_old_messages_count(office: Tenant) -> None:
    """The passage was repeated many messages ago, in the JSON of a tool."""
    first = texts_of(search(office, build_messages(), top_k=1))[0]
    chat = [{"role": "agent", "content": f"Answer {number}."} for number in range(300)]
    messages = [{"role": "tool", "content": json.dumps({"results": [{"text": first}]})}, *chat, *build_messages()]
    assert texts_of(search(office, messages, top_k=7))[-1] == first
    assert ask_agent(office, messages, top_k=7)[-1] == first


def test_search_invalid_repeat_is_refused(office: Tenant) -> None:
    reply = office.admin.post("/v1/search", json={"messages": build_messages(), "repeat": "never"})
    assert_problem(reply, 422, "invalid")


def test_agent_search_repeated_passages_come_last(office: Tenant) -> None:
    everything = ask_agent(office, build_messages(), top_k=7)
    assert len(everything) == 7
    repeated = "\n---\n".join(everything[:2])
    assert ask_agent(office, build_messages(repeated, role="tool"), top_k=7) == [*everything[2:], *everything[:2]]
    assert len(ask_agent(office, build_messages("\n---\n".join(everything)))) == 5


def test_agent_search_cut_passages_with_citation_come_last(office: Tenant) -> None:
    settings = {"knowledge_bases": ["default"], "citations": "prefix", "max_snippet_chars": 80}
    office.admin.put("/v1/agents/cutter", json=settings).raise_for_status()
    everything = ask_agent(office, build_messages(), top_k=7, agent_id="cutter")
    assert max(map(len, everything)) == 80
    repeated = build_messages("\n\n---\n\n".join(everything[:2]), role="tool")
    assert ask_agent(office, repeated, top_k=7, agent_id="cutter") == [*everything[2:], *everything[:2]]


def test_search_repeat_with_expansion_compares_shown_text(office: Tenant) -> None:
    everything = texts_of(search(office, build_messages(), top_k=7, expand="section"))
    found = texts_of(search(office, build_messages(everything[0]), top_k=7, expand="section"))
    assert found == [*everything[1:], everything[0]]
