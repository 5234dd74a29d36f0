"""Evaluations over HTTP: figures, comparison, missing documents, limits, roles, other tenants and a killed worker."""

import json
import time
from typing import Any

import pytest
from typer.testing import CliRunner

from app.cli import app
from harness.running_service import Service, Tenant
from tests.api.problems import assert_problem
from tests.api.test_golden_sets import add_items, create_set, find_chunk

EVALUATIONS = "/v1/evaluations"
TEXTS = {
    "leave": "Parental leave has fourteen months in total.",
    "travel": "Trips by train are preferred over flights.",
    "toll": "The renter pays the toll of the motorway.",
    "pets": "Small pets may travel in a closed box.",
}


def add_texts(tenant: Tenant) -> dict[str, str]:
    return {name: tenant.add_text(text, external_id=name)["id"] for name, text in TEXTS.items()}


def fill_set(tenant: Tenant, documents: dict[str, str]) -> str:
    golden_set = create_set(tenant)
    items = [{"query": f"{TEXTS[name]}", "relevant": [{"document": each}]} for name, each in documents.items()]
    both = [{"document": documents["leave"]}, {"document": documents["travel"]}]
    add_items(tenant, golden_set, *items, {"query": "months of trips", "relevant": both})
    return golden_set


def start(tenant: Tenant, golden_set: str, *settings: dict[str, Any]) -> str:
    started = tenant.admin.post(EVALUATIONS, json={"set": golden_set, "settings": list(settings)})
    assert started.status_code == 202, started.text
    return str(started.json()["id"])


def wait_for(tenant: Tenant, evaluation: str) -> dict[str, Any]:
    deadline = time.monotonic() + 90
    while (found := tenant.admin.get(f"{EVALUATIONS}/{evaluation}").json())["state"] in ("queued", "running"):
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    result: dict[str, Any] = found
    return result


def list_results(tenant: Tenant, evaluation: str, **params: str) -> list[dict[str, Any]]:
    listed = tenant.admin.get(f"{EVALUATIONS}/{evaluation}/results", params=params)
    assert listed.status_code == 200, listed.text
    result: list[dict[str, Any]] = listed.json()["items"]
    return result


@pytest.mark.capability("evaluations")
def test_evaluation_compares_two_settings(tenant: Tenant) -> None:
    documents = add_texts(tenant)
    golden_set = fill_set(tenant, documents)
    only_pets = {"filter": {"$document_id": documents["pets"]}}
    evaluation = start(tenant, golden_set, {}, only_pets)
    done = wait_for(tenant, evaluation)
    assert (done["state"], done["error"], done["settings"]) == ("done", None, [{}, only_pets])
    assert done["progress"] == {"done": 10, "total": 10}
    figures = {figure["measure"]: figure for figure in done["figures"]}
    assert list(figures) == ["nDCG@10", "recall@5", "recall@10", "recall@100", "MRR@10", "all@5"]
    recall = figures["recall@10"]
    assert [value["mean"] for value in recall["values"]] == [1.0, 0.2]
    assert (recall["difference"]["better"], recall["difference"]["worse"], recall["difference"]["equal"]) == (0, 4, 1)
    assert recall["difference"]["mean"] == pytest.approx(-0.8)
    assert recall["difference"]["low"] <= -0.8 <= recall["difference"]["high"] < 0
    assert recall["difference"]["significant"]
    worse = list_results(tenant, evaluation, change="worse", measure="recall@10")
    assert {entry["query"] for entry in worse} == {*(TEXTS[name] for name in ("leave", "travel", "toll"))} | {
        "months of trips"
    }
    assert [result["relevant"][0]["rank"] for result in worse[0]["results"]] == [1, None]
    assert [entry["query"] for entry in list_results(tenant, evaluation, change="equal", measure="recall@10")] == [
        TEXTS["pets"]
    ]
    assert list_results(tenant, evaluation, change="better") == []
    assert [entry["id"] for entry in tenant.admin.get(EVALUATIONS, params={"set": golden_set}).json()["items"]] == [
        evaluation
    ]


def test_evaluation_results_are_paged(tenant: Tenant) -> None:
    golden_set = fill_set(tenant, add_texts(tenant))
    evaluation = start(tenant, golden_set, {"strategy": "lexical"})
    assert wait_for(tenant, evaluation)["figures"][0]["difference"] is None
    items: list[str] = []
    cursor = None
    while not items or cursor:
        params = {"limit": 2, **({"cursor": cursor} if cursor else {})}
        page = tenant.admin.get(f"{EVALUATIONS}/{evaluation}/results", params=params).json()
        items += [entry["item"] for entry in page["items"]]
        cursor = page["next_cursor"]
    assert len(items) == len(set(items)) == 5
    counted = {"limit": "1", "count": "true"}
    assert tenant.admin.get(f"{EVALUATIONS}/{evaluation}/results", params=counted).json()["total"] == 5
    assert tenant.admin.get(EVALUATIONS, params=counted).json()["total"] == 1


def test_evaluation_equals_figures_of_carrel_evaluate(tenant: Tenant, tmp_path: Any) -> None:
    documents = add_texts(tenant)
    queries = {"q1": ("Who pays?", ["toll"]), "q2": ("train months", ["travel", "leave"]), "q3": ("box", ["pets"])}
    golden_set = create_set(tenant)
    for text, relevant in queries.values():
        add_items(tenant, golden_set, {"query": text, "relevant": [{"document": documents[name]} for name in relevant]})
    lines = [json.dumps({"id": key, "text": text, "relevant": names}) for key, (text, names) in queries.items()]
    (tmp_path / "queries.jsonl").write_text("\n".join(lines))
    settings: list[dict[str, Any]] = [
        {"knowledge_bases": ["default"]},
        {"knowledge_bases": ["default"], "strategy": "lexical"},
    ]
    done = wait_for(tenant, start(tenant, golden_set, *settings))
    options = [part for number, body in enumerate(settings) for part in ("--setting", f"s{number}={json.dumps(body)}")]
    command = ["evaluate", str(tmp_path / "queries.jsonl"), "--kb", "default", "--json", *options]
    run = CliRunner().invoke(app, [*command, "--url", tenant.service.url, "--key", tenant.key])
    assert run.exit_code == 0, run.output
    report = json.loads(run.stdout)
    for figure in done["figures"]:
        for value, setting in zip(figure["values"], report["settings"], strict=True):
            expected = setting["measures"][figure["measure"]]
            assert value["mean"] == pytest.approx(expected["mean"])
            assert expected["queries"] == figure["queries"]
        expected = report["settings"][1]["measures"][figure["measure"]]["difference"]
        assert figure["difference"]["mean"] == pytest.approx(expected["mean"])
        for name in ("better", "worse"):
            assert figure["difference"][name] == expected[name]


def test_evaluation_counts_judged_chunks(tenant: Tenant) -> None:
    document = tenant.add_text("Parental leave has fourteen months.")["id"]
    golden_set = create_set(tenant)
    relevant = [{"document": document, "chunk": find_chunk(tenant, document)}]
    add_items(tenant, golden_set, {"query": "leave", "relevant": relevant})
    evaluation = start(tenant, golden_set, {})
    wait_for(tenant, evaluation)
    result = list_results(tenant, evaluation)[0]["results"][0]
    assert (result["relevant"][0]["chunk"], result["relevant"][0]["rank"]) == (relevant[0]["chunk"], 1)


def test_evaluation_leaves_out_deleted_documents_with_warning(tenant: Tenant) -> None:
    documents = add_texts(tenant)
    golden_set = fill_set(tenant, documents)
    assert tenant.admin.delete(f"/v1/knowledge-bases/default/documents/{documents['pets']}").status_code == 204
    evaluation = start(tenant, golden_set, {})
    done = wait_for(tenant, evaluation)
    assert done["figures"][0]["queries"] == 4
    assert done["warnings"][0]["code"] == "golden_relevance_missing"
    unscored = [entry["results"][0] for entry in list_results(tenant, evaluation) if not entry["results"][0]["scores"]]
    assert [(result["relevant"], result["missing"]) for result in unscored] == [([], 1)]


def test_evaluation_of_few_results_has_warning(tenant: Tenant) -> None:
    golden_set = fill_set(tenant, add_texts(tenant))
    done = wait_for(tenant, start(tenant, golden_set, {"top_k": 5}))
    assert [warning["code"] for warning in done["warnings"]] == ["evaluation_depth_limited"]


@pytest.mark.parametrize(
    "setting",
    [
        {"query": "q"},
        {"messages": []},
        {"explain": True},
        {"strategy": "unknown"},
        {"strategy_options": {"unknown": 1}, "strategy": "hybrid"},
        {"top_k": 0},
        {"filter": {"a": {"unknown": 1}}},
        {"unknown": 1},
        {"scope": {"agent_id": "a"}},
    ],
)
def test_evaluation_with_invalid_setting_is_refused(tenant: Tenant, setting: dict[str, Any]) -> None:
    golden_set = fill_set(tenant, add_texts(tenant))
    reply = tenant.admin.post(EVALUATIONS, json={"set": golden_set, "settings": [{}, setting]})
    assert assert_problem(reply, 422, "invalid")["errors"][0]["loc"][:3] == ["body", "settings", 1]


def test_evaluation_of_unknown_objects_is_refused(tenant: Tenant) -> None:
    golden_set = create_set(tenant)
    empty = tenant.admin.post(EVALUATIONS, json={"set": golden_set, "settings": [{}]})
    assert_problem(empty, 409, "golden_set_empty")
    unknown = tenant.admin.post(EVALUATIONS, json={"set": "gold_nothing", "settings": [{}]})
    assert_problem(unknown, 404, "golden_set_not_found")
    body = {"set": golden_set, "settings": [{"knowledge_bases": ["nothing"]}]}
    assert_problem(tenant.admin.post(EVALUATIONS, json=body), 404, "knowledge_base_not_found")
    assert_problem(tenant.admin.get(f"{EVALUATIONS}/eval_nothing"), 404, "evaluation_not_found")


def test_evaluations_refuse_readers_and_restricted_keys(tenant: Tenant) -> None:
    golden_set = fill_set(tenant, add_texts(tenant))
    body = {"set": golden_set, "settings": [{}]}
    assert_problem(tenant.create_client("reader").post(EVALUATIONS, json=body), 403, "forbidden")
    for restriction in ({"knowledge_bases": ["default"]}, {"user_id": "user"}):
        client = tenant.create_client("writer", **restriction)
        assert_problem(client.post(EVALUATIONS, json=body), 403, "forbidden")
        assert_problem(client.get(EVALUATIONS), 403, "forbidden")
    assert tenant.create_client("writer").post(EVALUATIONS, json=body).status_code == 202


def test_evaluations_of_another_tenant_do_not_exist(service: Service, tenant: Tenant) -> None:
    documents = add_texts(tenant)
    golden_set = fill_set(tenant, documents)
    evaluation = start(tenant, golden_set, {})
    wait_for(tenant, evaluation)
    other = service.create_tenant("other")
    assert other.admin.get(EVALUATIONS).json()["items"] == []
    foreign = {"set": golden_set, "settings": [{}]}
    assert_problem(other.admin.post(EVALUATIONS, json=foreign), 404, "golden_set_not_found")
    for method, path in (("GET", ""), ("GET", "/results"), ("DELETE", "")):
        reply = other.admin.request(method, f"{EVALUATIONS}/{evaluation}{path}")
        assert_problem(reply, 404, "evaluation_not_found")
    mine = create_set(other)
    document = other.add_text("Another text.")["id"]
    add_items(other, mine, {"query": TEXTS["leave"], "relevant": [{"document": document}]})
    scoped = {"filter": {"$document_id": documents["leave"]}}
    own = start(other, mine, scoped)
    wait_for(other, own)
    assert list_results(other, own)[0]["results"][0]["relevant"][0]["rank"] is None


def test_delete_evaluation_and_set_removes_results(tenant: Tenant) -> None:
    golden_set = fill_set(tenant, add_texts(tenant))
    first = start(tenant, golden_set, {})
    assert tenant.admin.delete(f"{EVALUATIONS}/{first}").status_code == 204
    assert_problem(tenant.admin.get(f"{EVALUATIONS}/{first}"), 404, "evaluation_not_found")
    second = start(tenant, golden_set, {})
    wait_for(tenant, second)
    assert tenant.admin.delete(f"/v1/golden-sets/{golden_set}").status_code == 204
    assert_problem(tenant.admin.get(f"{EVALUATIONS}/{second}/results"), 404, "evaluation_not_found")
