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


@pytest.mark.capability("search-repeat-demote")
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


@pytest.mark.capability("search-repeat-exclude")
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


@pytest.mark.capability("search-repeat-allow")
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


@pytest.mark.capability("agent-search-repeat")
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


@pytest.mark.parametrize("citations", ["none", "prefix"])
def test_agent_search_long_citation_leaves_other_passages_in_place(service: Service, citations: str) -> None:
    """The citation is longer than the maximum of the passage: with the prefix, no word of the text is shown."""
    tenant = service.create_tenant("long-titles")
    for letter in "ABC":
        title = f"{letter}: terms and conditions of the rental of cars and vans in all countries of the union"
        tenant.add_text(f"{letter} rental can be cancelled free of charge by phone, or at the counter.", title=title)
    settings = {"knowledge_bases": ["default"], "citations": citations, "max_snippet_chars": 50}
    tenant.admin.put("/v1/agents/terse", json=settings).raise_for_status()
    everything = ask_agent(tenant, build_messages(), agent_id="terse")
    assert len(everything) == 3
    letters = build_messages(f"Letter {everything[0][0]} and letter {everything[0][1]} are no passages.")
    assert ask_agent(tenant, letters, agent_id="terse") == everything
    repeated = ask_agent(tenant, build_messages(everything[0]), agent_id="terse")
    assert repeated == ([*everything[1:], everything[0]] if citations == "none" else everything)


@pytest.mark.parametrize("repeat", ["demote", "exclude"])
def test_search_merged_parent_with_one_repeated_part_is_no_repeat(service: Service, repeat: str) -> None:
    tenant = service.create_tenant("merging")
    body = {"name": "terms", "chunking": {"max_tokens": 40}}
    tenant.admin.post("/v1/knowledge-bases", json=body).raise_for_status()
    texts = [(passage, " ".join(reversed(passage.split()))) for passage in PASSAGES[:6]]
    sections = "\n\n".join(f"# Chapter {number}\n\n{first}\n\n{last}" for number, (first, last) in enumerate(texts))
    tenant.add_text(sections, kb="terms", media_type="text/markdown")

    def find(*repeated: str, **fields: Any) -> list[str]:
        body = {"messages": build_messages(*repeated), "repeat": repeat, "top_k": 12, **fields}
        reply = tenant.admin.post("/v1/knowledge-bases/terms/search", json=body)
        assert reply.status_code == 200, reply.text
        return texts_of(reply.json()["results"])

    chunks = find()
    merging = {"expand": "parent", "expand_options": {"merge": 0.5, "max_characters": 400}}
    merged = find(**merging)
    assert 1 < len(merged) < len(chunks)
    for number, text in enumerate(merged):
        part = next(chunk for chunk in chunks if chunk in text)
        assert len(text) > 1.5 * len(part)
        assert find(part, **merging) == merged
        others = [*merged[:number], *merged[number + 1 :]]
        assert find(text, **merging) == [*others, *([text] if repeat == "demote" else [])]
