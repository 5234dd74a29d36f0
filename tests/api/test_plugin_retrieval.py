"""Strategies and transformers of plugins over HTTP: the examples of docs/how-to/write-a-plugin.md, and broken ones."""

import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.retrieval.strategies import STRATEGIES, load_strategies
from app.retrieval.transformers import TRANSFORMERS, load_transformers
from harness.protocol_servers.chat import ChatServer, ReceivedTextRequest
from harness.running_service import Service, Tenant
from tests.fixtures.plugins import Plugins, plugins
from tests.fixtures.service_warnings import warning_json
from tests.test_extending import EXAMPLES

__all__ = ["plugins"]
ALONE = "/v1/knowledge-bases/default/search"
OLD, NEW = "The old fee for lockers is nine euros.", "The fee is twelve euros."
OTHER = "Bicycles are at the gate."
STRATEGY = """
import asyncio
from dataclasses import replace
from carrel.plugins.strategies import HybridOptions, NoStrategyOptions, SearchContext, Strategy, run_hybrid
from pydantic import BaseModel

class Loose(BaseModel):
    depth: int = 1

class Wanting(BaseModel, extra="forbid"):
    depth: int

async def run(context, options):
    {body}

STRATEGY = {made}
"""
TRANSFORMER = """
import asyncio
from carrel.plugins.transformers import NoTransformerOptions, Transformer, TransformResult

async def run(context, options):
    {body}

TRANSFORMER = {made}
"""


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    """Clear the registries around each test, because a process loads them once."""
    for registry in (load_strategies, load_transformers):
        registry.cache_clear()
    yield
    for registry in (load_strategies, load_transformers):
        registry.cache_clear()


@pytest.fixture
def chat(running_chat: ChatServer) -> ChatServer:
    running_chat.reset()
    return running_chat


@pytest.fixture(scope="module")
def tenant(talking: Service) -> Tenant:
    """Tenant with three documents: the old one matches best, the new one is recent, and the third is last."""
    made = talking.create_tenant()
    long_ago = (datetime.now(UTC) - timedelta(days=3650)).isoformat()
    made.add_text(OLD, external_id="old", source_created_at=long_ago)
    made.add_text(NEW, external_id="new")
    made.add_text(OTHER, external_id="other")
    return made


def strategy(
    plugins: Plugins, module: str, body: str, made: str = "Strategy('mine', 'Mine.', NoStrategyOptions, run)"
) -> None:
    plugins.add(module, STRATEGY.format(body=body, made=made), strategies={module: f"{module}:STRATEGY"})


def transformer(plugins: Plugins, module: str, body: str) -> None:
    source = TRANSFORMER.format(body=body, made="Transformer('mine', 'Mine.', NoTransformerOptions, run)")
    plugins.add(module, source, transformers={module: f"{module}:TRANSFORMER"})


def example(plugins: Plugins, name: str, **groups: dict[str, str]) -> None:
    """Install an example of the page as a plugin."""
    plugins.add(name, EXAMPLES[f"{name.replace('_', '-')}/{name}.py"], **groups)


def ask(tenant: Tenant, **body: Any) -> dict[str, Any]:
    reply = tenant.admin.post(ALONE, json={"query": "the fee for lockers", "timeout_seconds": 30, "top_k": 2, **body})
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    return found


def texts(answer: dict[str, Any]) -> list[str]:
    return [result["text"] for result in answer["results"]]


@pytest.mark.capability("strategy-plugin")
def test_recency_strategy_example_ranks_new_document_first(plugins: Plugins, tenant: Tenant) -> None:
    example(plugins, "carrel_recency", strategies={"recency": "carrel_recency:STRATEGY"})
    assert texts(ask(tenant)) == [OLD, NEW]
    found = ask(tenant, strategy="recency", top_k=1)
    assert (texts(found), found["strategy"], found["warnings"]) == ([NEW], "recency", [])
    slowly = ask(tenant, strategy="recency", strategy_options={"half_life_days": 36_500})
    assert texts(slowly) == [OLD, NEW]
    # ten years of a half-life of a hundred
    assert 0.9 < slowly["results"][0]["score"] / ask(tenant)["results"][0]["score"] < 0.96
    wrong = tenant.admin.post(ALONE, json={"query": "x", "strategy": "recency", "strategy_options": {"days": 1}})
    assert (wrong.status_code, wrong.json()["errors"][0]["loc"]) == (422, ["body", "strategy_options", "days"])
    listed = {one["name"]: one for one in tenant.admin.get("/v1/capabilities").json()["strategies"]}
    assert listed.keys() == {*STRATEGIES, "recency"}
    assert listed["recency"]["options"]["properties"]["half_life_days"]["default"] == 180


def test_agent_uses_plugin_strategy_until_it_is_removed(plugins: Plugins, tenant: Tenant) -> None:
    strategy(
        plugins,
        "s_agent",
        "return [replace(h, score=-h.score) for h in await run_hybrid(context, HybridOptions())]",
    )
    binding = {"knowledge_bases": ["default"], "strategy": "mine"}
    assert tenant.admin.put("/v1/agents/agt", json=binding).status_code in (200, 201)
    asked = {"agent_id": "agt", "top_k": 2, "messages": [{"role": "user", "content": "the fee for lockers"}]}
    assert tenant.admin.post("/v1/agent-search", json=asked).json() == [NEW, OLD]
    (plugins.folder / "s_agent-1.0.dist-info" / "entry_points.txt").unlink()
    load_strategies.cache_clear()
    assert tenant.admin.post("/v1/agent-search", json=asked).json() == [OLD, NEW]
    assert tenant.admin.put("/v1/agents/agt", json=binding).status_code == 422


@pytest.mark.capability("transformer-plugin")
def test_jargon_transformer_example_rewrites_query(plugins: Plugins, tenant: Tenant, chat: ChatServer) -> None:
    def reply(talk: ReceivedTextRequest) -> str:
        told = json.loads(talk.last_message)
        return json.dumps({"texts": [f"{told['query']} ({told['field']})"]})

    chat.reply = reply
    example(plugins, "carrel_jargon", transformers={"jargon": "carrel_jargon:TRANSFORMER"})
    wished = {"name": "jargon", "options": {"field": "law"}}
    found = ask(tenant, query="fee", transformers=["jargon", wished], explain=True)
    assert (found["queries"], found["warnings"]) == (["fee (medicine) (law)"], [])
    assert found["explain"]["transformers"] == ["jargon", "jargon"]
    listed = {one["name"]: one for one in tenant.admin.get("/v1/capabilities").json()["transformers"]}
    assert listed.keys() == {*TRANSFORMERS, "jargon"}
    chat.fail(500, times=2)
    failed = ask(tenant, query="fee", transformers=["jargon"])
    assert failed["warnings"] == [
        warning_json("chat_model_unavailable", "The chat model did not answer, so jargon ran without it.")
    ]
    assert failed["queries"] == ["fee"]
    chat.reset()


def test_strategy_with_plain_notice_gets_plugin_warning_code(plugins: Plugins, tenant: Tenant) -> None:
    body = "context.search_run.add_notice('A plain string.')\n    return await run_hybrid(context, HybridOptions())"
    strategy(plugins, "s_notices", body)
    assert ask(tenant, strategy="mine")["warnings"] == [warning_json("plugin_warning", "A plain string.")]


@pytest.mark.capability("strategy-plugin-failure")
@pytest.mark.parametrize(
    ("module", "body"),
    [
        ("s_raises", "raise KeyError"),
        ("s_nothing", "return None"),
        ("s_dicts", "return [{'text': 'x'}]"),
        ("s_nan", "return [replace(h, score=float('nan')) for h in await run_hybrid(context, HybridOptions())]"),
        ("s_late", "await asyncio.sleep(3600)"),
    ],
)
def test_failing_plugin_strategy_falls_back_to_hybrid(plugins: Plugins, tenant: Tenant, module: str, body: str) -> None:
    strategy(plugins, module, body)
    found = ask(tenant, strategy="mine", timeout_seconds=6 if module == "s_late" else 30)
    assert found["warnings"] == [
        warning_json("strategy_failed", "The strategy 'mine' failed, so hybrid was used instead.")
    ]
    assert texts(found) == [OLD, NEW]


@pytest.mark.parametrize(
    ("module", "body"),
    [
        ("t_raises", "raise KeyError"),
        ("t_nothing", "return None"),
        ("t_empty", "return TransformResult([' '])"),
        ("t_text", "return TransformResult('fee')"),
        ("t_numbers", "return TransformResult([1])"),
        ("t_late", "await asyncio.sleep(3600)"),
    ],
)
def test_failing_plugin_transformer_is_skipped(plugins: Plugins, tenant: Tenant, module: str, body: str) -> None:
    transformer(plugins, module, body)
    found = ask(tenant, transformers=["mine"], timeout_seconds=6 if module == "t_late" else 30)
    assert found["warnings"] == [warning_json("transformer_failed", "The transformer 'mine' failed and was skipped.")]
    assert (found["queries"], texts(found)) == (["the fee for lockers"], [OLD, NEW])


def test_plugin_transformer_with_many_queries_is_cut(plugins: Plugins, tenant: Tenant) -> None:
    transformer(plugins, "t_many", "return TransformResult([f'fee {n}' for n in range(99)])")
    assert ask(tenant, transformers=["mine"])["queries"] == [f"fee {number}" for number in range(16)]


@pytest.mark.parametrize(
    ("module", "named", "queries"),
    [
        ("s_fans", "['keywords', ('multi_query', {'num_queries': 1})]", ["fee lockers", "fee lockers again"]),
        ("s_unknown", "['magic']", ["the fee for lockers"]),
        ("s_none", "None", ["the fee for lockers"]),
    ],
)
def test_plugin_strategy_may_name_transformers(
    plugins: Plugins, tenant: Tenant, chat: ChatServer, module: str, named: str, queries: list[str]
) -> None:
    def reply(talk: ReceivedTextRequest) -> str:
        query = json.loads(talk.last_message)["query"]
        return json.dumps(
            {"texts": [f"{query} again"] if "other queries" in talk.messages[0]["content"] else ["fee lockers"]}
        )

    chat.reply = reply
    made = f"Strategy('mine', 'Mine.', HybridOptions, run_hybrid, transformers=lambda options: {named})"
    strategy(plugins, module, "return []", made)
    found = ask(tenant, strategy="mine")
    assert (found["queries"], sorted(texts(found))) == (queries, sorted([OLD, NEW]))
    gone = [
        warning_json(
            "transformer_unavailable",
            "The transformer 'magic' of the strategy 'mine' was skipped: it is missing or has other options.",
        )
    ]
    assert found["warnings"] == (gone if module == "s_unknown" else [])


@pytest.mark.parametrize(
    ("module", "made"),
    [
        ("r_error", "1 / 0"),
        ("r_other", "'no strategy'"),
        ("r_ours", "Strategy('hybrid', 'Mine.', NoStrategyOptions, run)"),
        ("r_alias", "Strategy('simple', 'Mine.', NoStrategyOptions, run)"),
        ("r_name", "Strategy('My Own', 'Mine.', NoStrategyOptions, run)"),
        ("r_loose", "Strategy('mine', 'Mine.', Loose, run)"),
        ("r_wanting", "Strategy('mine', 'Mine.', Wanting, run)"),
        ("r_no_model", "Strategy('mine', 'Mine.', dict, run)"),
        ("r_no_run", "Strategy('mine', 'Mine.', NoStrategyOptions, None)"),
    ],
)
def test_invalid_plugin_strategy_is_skipped_and_valid_one_loads(
    plugins: Plugins, caplog: pytest.LogCaptureFixture, module: str, made: str
) -> None:
    strategy(plugins, module, "return []", made)
    strategy(plugins, f"z_{module}", "return []", "Strategy('good', 'Good.', NoStrategyOptions, run)")
    with caplog.at_level(logging.WARNING, logger="app"):
        assert load_strategies().keys() == {*STRATEGIES, "good"}
    assert [record.msg for record in caplog.records] == ["plugin.skipped"]
