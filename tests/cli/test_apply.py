"""``carrel apply`` and ``carrel export --config`` against the running service."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from app.cli import app
from harness.running_service import Service, Tenant
from tests.cli.commands import WIDE, printed, wait_until

WHOLE = """
knowledge_bases:
  handbook:
    title: Staff handbook
    description: Rules of work
    language: german
    chunking: {strategy: headered, max_tokens: 150}
    retrieval:
      top_k: 7
      transformers: [reformulate, {name: multi_query, options: {num_queries: 2}}]
      answer_prompt: |
        Answer briefly.
    routing:
      descriptions: [Rules for leave and travel]
    metadata_filter: {department: hr}
  faq: {}
agents:
  agt_desk:
    knowledge_bases: [handbook, faq]
    citations: prefix
    max_top_k: 8
    strategy: hybrid
    strategy_options: {dense_weight: 0.4}
    filter: {audience: [staff]}
"""


@pytest.fixture
def carrel(tenant: Tenant) -> Callable[..., Any]:
    return partial(printed, url=tenant.service.url, key=tenant.key)


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], str]:
    def write_file(text: str) -> str:
        file = tmp_path / "carrel.yaml"
        file.write_text(text, "utf-8")
        return str(file)

    return write_file


def list_changes(reply: dict[str, Any]) -> list[tuple[str, str, list[str]]]:
    return [(one["name"], one["action"], [item["path"] for item in one["fields"]]) for one in reply["changes"]]


@pytest.mark.capability("cli-apply")
def test_apply_creates_everything_and_same_file_changes_nothing(
    carrel: Callable[..., Any], tenant: Tenant, write: Callable[[str], str]
) -> None:
    file = write(WHOLE)
    checked = carrel("apply", file, "--check", "--json", status=1)
    assert [(name, action) for name, action, _ in list_changes(checked)] == [
        ("handbook", "create"), ("faq", "create"), ("agt_desk", "create")
    ]  # fmt: skip
    assert checked["applied"] == 0
    assert [one["name"] for one in carrel("kb", "list", "--json")] == ["default"]
    assert carrel("apply", file, "--yes", "--json")["applied"] == 3
    handbook = carrel("kb", "show", "handbook", "--json")
    assert (handbook["title"], handbook["language"], handbook["retrieval"]["top_k"]) == ("Staff handbook", "german", 7)
    assert (handbook["chunking"]["max_tokens"], handbook["metadata_filter"]) == (150, {"department": "hr"})
    agent = tenant.admin.get("/v1/agents/agt_desk").json()
    assert (agent["max_top_k"], len(agent["knowledge_bases"])) == (8, 2)
    for _ in range(2):
        assert carrel("apply", file, "--yes", "--json") == {"changes": [], "applied": 0}
    assert carrel("apply", file, "--check") == "No changes: the service agrees with the file.\n"


@pytest.mark.capability("alias-apply")
def test_apply_takes_names_of_other_systems(
    carrel: Callable[..., Any], tenant: Tenant, write: Callable[[str], str]
) -> None:
    file = write("""
knowledge_bases:
  handbook:
    retrieval: {strategy: hybrid, k: 7, query_transformers: [decompose], strategy_options: {sparse_weight: 0.4}}
  faq: {}
agents:
  agt_desk:
    knowledge_bases: [handbook]
    strategy: hybrid
    fusion: linear
    sparse_encoder: bm25
    retrieval_timeout: 4
""")
    checked = carrel("apply", file, "--check", "--json", status=1)
    (shown,) = (one["body"]["retrieval"] for one in checked["changes"] if one["name"] == "handbook")
    assert (shown["top_k"], shown["strategy_options"]) == (7, {"dense_weight": 0.6})
    assert carrel("apply", file, "--yes", "--json")["applied"] == 3
    agent = tenant.admin.get("/v1/agents/agt_desk").json()
    assert (agent["strategy_options"], agent["timeout_seconds"]) == ({"fusion": "weighted"}, 4.0)
    assert carrel("apply", file, "--yes", "--json") == {"changes": [], "applied": 0}
    exported = carrel("export", "--config")
    assert "dense_weight: 0.6" in exported
    assert "sparse_weight" not in exported
    change = "knowledge_bases: {handbook: {retrieval: {strategy: hybrid, sparse_weight: 0.9}}}"
    (changed,) = carrel("apply", write(change), "--yes", "--json")["changes"]
    assert changed["body"]["retrieval"]["strategy_options"] == {"dense_weight": 0.1}
    refused = carrel("apply", write("agents: {a: {knowledge_bases: [faq], similarity: l2}}"), "--check", status=2)
    assert "agents.a.similarity: Carrel has no such similarity: use one of cosine" in refused


def test_apply_changes_named_fields_alone(
    carrel: Callable[..., Any], tenant: Tenant, write: Callable[[str], str]
) -> None:
    carrel("apply", write(WHOLE), "--yes")
    change = """
knowledge_bases:
  handbook: {retrieval: {top_k: 9}, metadata_filter: {department: legal}}
agents:
  agt_desk: {knowledge_bases: [faq], strategy: lexical}
"""
    reply = carrel("apply", write(change), "--yes", "--json")
    assert list_changes(reply) == [
        ("handbook", "update", ["retrieval.top_k", "metadata_filter"]),
        ("agt_desk", "update", ["knowledge_bases", "strategy"]),
    ]
    handbook = carrel("kb", "show", "handbook", "--json")
    assert handbook["retrieval"]["top_k"] == 9
    assert handbook["retrieval"]["answer_prompt"] == "Answer briefly."
    assert handbook["routing"]["descriptions"] == ["Rules for leave and travel"]
    agent = tenant.admin.get("/v1/agents/agt_desk").json()
    assert (agent["strategy"], agent["strategy_options"], agent["citations"]) == ("lexical", {}, "prefix")
    assert carrel("apply", write(change), "--check", "--json")["changes"] == []


def test_apply_change_of_chunking_starts_reindex(
    carrel: Callable[..., Any], tenant: Tenant, write: Callable[[str], str]
) -> None:
    carrel("kb", "create", "notes")
    file = write("knowledge_bases: {notes: {chunking: {max_tokens: 90}, title: Notes}}")
    shown = carrel("apply", file, "--check", status=1)
    assert shown.splitlines()[0] == "~ knowledge base notes (reindex)"
    carrel("apply", file, "--yes")
    wait_until(lambda: tenant.admin.get("/v1/knowledge-bases/notes").json()["reindex"] is None)
    notes = carrel("kb", "show", "notes", "--json")
    assert (notes["chunking"]["max_tokens"], notes["title"]) == (90, "Notes")
    assert carrel("apply", file, "--check", "--json")["changes"] == []


@pytest.mark.capability("cli-apply-confirm")
def test_apply_without_confirmation_changes_nothing(tenant: Tenant, write: Callable[[str], str]) -> None:
    arguments = ["apply", write(WHOLE), "--url", tenant.service.url, "--key", tenant.key]
    refused = CliRunner().invoke(app, arguments, env=WIDE, input="n\n")
    assert refused.exit_code == 1
    assert "+ knowledge base handbook" in refused.stdout
    assert "3 to create, 0 to change." in refused.stdout
    in_json = CliRunner().invoke(app, [*arguments, "--json"], env=WIDE)
    assert (in_json.exit_code, "--yes" in in_json.output) == (2, True)
    assert [one["name"] for one in tenant.admin.get("/v1/knowledge-bases").json()["items"]] == ["default"]


@pytest.mark.capability("cli-export-config")
def test_exported_configuration_equals_service_and_restores_it(
    carrel: Callable[..., Any], service: Service, tenant: Tenant, write: Callable[[str], str], tmp_path: Path
) -> None:
    carrel("apply", write(WHOLE), "--yes")
    target = tmp_path / "export.yaml"
    carrel("export", "--config", "--to", str(target))
    assert "exists" in carrel("export", "--config", "--to", str(target), status=2)
    assert carrel("apply", str(target), "--check", "--json")["changes"] == []
    other = service.create_tenant()
    elsewhere = partial(printed, url=service.url, key=other.key)
    elsewhere("apply", str(target), "--yes")
    exported = elsewhere("export", "--config")
    assert exported == target.read_text("utf-8")
    agents = yaml.safe_load(exported)["agents"]
    assert agents["agt_desk"]["knowledge_bases"] == ["handbook", "faq"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "at least one of the keys knowledge_bases, agents"),
        ("[1]", "at least one of the keys"),
        ("kbs: {}", "Unknown keys: kbs."),
        ("knowledge_bases: [handbook]", "knowledge_bases: write an object"),
        ("knowledge_bases: {handbook: 5}", "knowledge_bases.handbook: write an object of fields."),
        ("knowledge_bases: {Handbook: {}}", "knowledge_bases.Handbook.name:"),
        ("knowledge_bases: {handbook: {name: other}}", "leave out name"),
        ("knowledge_bases: {handbook: {retrieval: {top_k: 0}}}", "knowledge_bases.handbook.retrieval.top_k:"),
        ("knowledge_bases: {handbook: {titel: x}}", "knowledge_bases.handbook.titel:"),
        ("agents: {a: {}}", "agents.a.knowledge_bases:"),
        ("agents: {a: {knowledge_bases: [missing]}}", "agents.a.knowledge_bases: unknown: missing."),
        ("knowledge_bases: {a: {}, a: {}}", "the key 'a' occurs twice"),
        ("knowledge_bases: {1: {}}", "is no text"),
        ("knowledge_bases: {a: !!python/object/apply:os.system [id]}", "is no YAML"),
        ("{", "is no YAML"),
        ("knowledge_bases: {a: {title: 2024-13-45}}", "is no YAML"),
        ("knowledge_bases: {a: !!bool x}", "is no YAML"),
        ("knowledge_bases: {a: {retrieval: {strategy: graph_rag, strategy_options: {x: 2024-01-01}}}}", "JSON"),
    ],
)  # fmt: skip
def test_invalid_file_is_refused_before_any_change(
    carrel: Callable[..., Any], tenant: Tenant, write: Callable[[str], str], text: str, said: str
) -> None:
    assert said in carrel("apply", write(text), "--yes", status=2)
    assert len(tenant.admin.get("/v1/knowledge-bases").json()["items"]) == 1


def test_all_faults_of_file_are_listed(carrel: Callable[..., Any], write: Callable[[str], str]) -> None:
    said = carrel("apply", write("knowledge_bases: {a: {top: 1}, b: {routing: {scale: 0}}}"), "--yes", status=2)
    assert "knowledge_bases.a.top:" in said
    assert "knowledge_bases.b.routing.scale:" in said


def test_kind_of_knowledge_base_cannot_change(carrel: Callable[..., Any], write: Callable[[str], str]) -> None:
    source = "{hostname: 'https://search.example.com', path: /search}"
    file = write(f"knowledge_bases: {{default: {{kind: agent_search, source: {source}}}}}")
    assert "has the kind documents, which cannot change" in carrel("apply", file, "--yes", status=2)


@pytest.mark.parametrize("arguments", [[], ["handbook"], ["handbook", "--config"]])
def test_export_without_archive_or_configuration_says_what_is_missing(
    carrel: Callable[..., Any], arguments: list[str]
) -> None:
    assert "Give the name of a knowledge base" in carrel("export", *arguments, status=2)
