"""The playground in Chromium: 50 settings, two columns, a conversation, golden sets. Needs Node and Chromium."""

from __future__ import annotations

import json
import random
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest

from harness.console_browser import BROWSER_MARKS, run_browser

if TYPE_CHECKING:
    from harness.running_service import Service, Tenant

PAYLOAD = "<img src=x onerror=window.pwned=1>"
TEXTS = [
    "A transporter costs ninety euros a day.",
    f"The deposit of a transporter is 300 euros. {PAYLOAD}",
    "Cancellation is free until two days before the rental.",
    "A bicycle costs twelve euros a day, without a deposit.",
    "The office opens at eight.",
]
CONVERSATION = [
    {"role": "user", "content": "What does a transporter cost?"},
    {"role": "assistant", "content": f"Ninety euros a day. {PAYLOAD}"},
    {"role": "user", "content": "And what is the deposit?"},
]
RUNS = 50
FAULTS = ("reports", "errors", "foreign", "leaks", "markup", "violations", "overflow")
TIMINGS = re.compile(r'"timings_ms":\{[^}]*\}')

pytestmark = BROWSER_MARKS


def draw_more(draw: random.Random) -> dict[str, Any]:
    """Draw settings from the whole request; a few are such that the API refuses them."""
    offered: dict[str, list[Any]] = {
        "score_threshold": [0.1, -1, "auto", 7],
        "filter": [{"year": {"gte": 2024}}, {"year": {"exists": False}}, {"source": PAYLOAD}],
        "expand": ["none", "window", "section", "parent"],
        "repeat": ["allow", "exclude"],
        "combine": ["best", "sum"],
        "collapse": [True, False],
        "include": [["keywords"], ["parent_summaries", "keywords"], [PAYLOAD]],
        "rerank": [True, False],
        "explain": [True, False],
        "return_vectors": [True],
        "transformers": [[], ["reformulate"]],
        "exclude_dynamic": [True],
    }
    names = draw.sample(sorted(offered), draw.randint(0, 4))
    # On a busy machine, the default time could leave a step out of one of two equal searches.
    return {"timeout_seconds": 30} | {name: draw.choice(offered[name]) for name in names}


def draw_address(draw: random.Random) -> str:
    """Draw the address of a search."""
    question: dict[str, str] = {
        "q": draw.choice(["deposit", "free cancellation", f"transporter {PAYLOAD}", "Grüße 'ß'"])
    }
    if draw.random() < 0.3:
        question = {"messages": json.dumps(CONVERSATION[: draw.choice([1, 3])])}
    chosen = {
        "kb": draw.choice(["", "handbook"]),
        "strategy": draw.choice(["", "hybrid", "dense", "lexical", "multi_query", "graph_rag", "<b>"]),
        "top_k": draw.choice(["", "1", "3", "50"]),
        "more": json.dumps(draw_more(draw)),
    }
    return "/search?" + urlencode(question | {name: value for name, value in chosen.items() if value})


@pytest.fixture(scope="module")
def tenant(service: Service) -> Tenant:
    """Tenant with five texts in the knowledge base ``handbook``."""
    tenant = service.create_tenant()
    tenant.admin.post("/v1/knowledge-bases", json={"name": "handbook"}).raise_for_status()
    for text in TEXTS:
        assert tenant.add_text(text, kb="handbook")["status"] == "ready"
    return tenant


@pytest.fixture(scope="module")
def report(service: Service, tenant: Tenant) -> dict[str, Any]:
    """Report of one run of ``console/tests/playground.mjs``."""
    draw = random.Random(31)
    settings = [draw_address(draw) for _ in range(RUNS)]
    reader = tenant.admin.post("/v1/api-keys", json={"name": "reader", "role": "reader"}).json()
    keys = {"admin": tenant.key, "reader": reader["key"]}
    return run_browser("playground.mjs", service.url, keys, settings=settings, conversation=CONVERSATION)


def hide_timings(reply: str) -> str:
    return TIMINGS.sub('"timings_ms":{}', reply)


def check_run(tenant: Tenant, run: dict[str, Any], number: int = 0) -> int:
    """Check one column of a run, and return the status of its search."""
    sent = next(entry for entry in run["wire"] if entry["body"] == run["shownBodies"][number])
    again = tenant.admin.post(sent["url"], content=sent["body"], headers={"Content-Type": "application/json"})
    assert again.status_code == sent["status"], sent
    if sent["status"] == 200:
        assert run["shownReplies"][number] == sent["reply"]
        assert hide_timings(again.text) == hide_timings(sent["reply"])
    else:
        assert again.json()["detail"] in "\n".join(run["alerts"])
    return int(sent["status"])


def test_playground_of_50_random_settings_equals_the_search_of_the_api(report: dict[str, Any], tenant: Tenant) -> None:
    assert len(report["runs"]) == RUNS
    assert all(len(run["wire"]) == 1 for run in report["runs"])
    statuses = [check_run(tenant, run) for run in report["runs"]]
    assert set(statuses) == {200, 422}
    assert statuses.count(200) >= RUNS // 2


def test_comparison_marks_new_results_and_draws_lines_between_equal_ones(
    report: dict[str, Any], tenant: Tenant
) -> None:
    compared = report["compared"]
    assert [check_run(tenant, compared, number) for number in (0, 1)] == [200, 200]
    first, second = ([hit["chunk_id"] for hit in json.loads(text)["results"]] for text in compared["shownReplies"])
    assert len(first) == 2
    assert len(second) == 4
    assert report["lines"] == len(set(first) & set(second))
    assert report["marks"].count("new") == len(set(second) - set(first))
    assert report["marks"].count("lost") == len(set(first) - set(second))
    assert {"deposit", "transporter"} <= {word.lower() for word in report["words"]}


def test_conversation_is_sent_as_shown_and_copied_as_programs(report: dict[str, Any]) -> None:
    talk = report["conversation"]
    assert talk["shownBody"] == talk["body"]
    assert talk["shownReply"] == talk["reply"]
    assert json.loads(talk["body"]) == {"messages": CONVERSATION, "explain": True}
    copies = report["copies"]
    assert "/v1/knowledge-bases/handbook/search" in copies["Copy as curl"]
    compile(copies["Copy as Python"], "copied", "exec")
    assert 'knowledge_base="handbook"' in copies["Copy as Python"]


def test_copied_agent_is_a_binding_of_the_api(report: dict[str, Any], tenant: Tenant) -> None:
    body = report["copies"]["Copy as agent"]
    reply = tenant.admin.put("/v1/agents/copied", content=body, headers={"Content-Type": "application/json"})
    assert reply.status_code == 201, reply.text


def test_relevant_result_becomes_an_item_of_a_golden_set(report: dict[str, Any], tenant: Tenant) -> None:
    assert report["relevant"]["status"] in (200, 201)
    (golden_set,) = tenant.admin.get("/v1/golden-sets").json()["items"]
    assert (golden_set["name"], golden_set["item_count"]) == ("From the playground", 1)
    (item,) = json.loads(report["relevant"]["body"])["items"]
    assert item["query"] == "deposit of a transporter"
    assert report["readerMarks"] == 0


def test_playground_breaks_no_policy_and_has_no_accessibility_violation(report: dict[str, Any]) -> None:
    for fault in FAULTS:
        assert report[fault] == [], fault
