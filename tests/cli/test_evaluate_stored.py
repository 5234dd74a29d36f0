"""``carrel evaluate --set``: golden sets that the service stores, with the table of ``carrel evaluate``."""

import json
from pathlib import Path

import pytest
from carrel_client import Client
from carrel_client.types import GoldenItemInput
from typer.testing import CliRunner, Result

from app.cli import app
from harness.running_service import Service, Tenant

TEXTS = {"birds": "Herons wait in the reeds.", "fish": "Trout swim upstream.", "cars": "Engines burn petrol."}
QUERIES = {"Where do herons wait?": "birds", "What swims upstream?": "fish", "What is bread?": "cars"}
SETTINGS = ("--setting", "now={}", "--setting", 'words={"strategy": "lexical"}')


def run(tenant: Tenant, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["evaluate", *arguments, "--url", tenant.service.url, "--key", tenant.key])


@pytest.fixture(scope="module")
def stored(service: Service) -> tuple[Tenant, str]:
    """Tenant with three texts, and its golden set."""
    tenant = service.create_tenant()
    with Client(service.url, tenant.key) as client:
        golden_set = client.golden_sets.create("Animals")["id"]
        documents = {
            name: client.documents.add_text("default", text, external_id=name, wait=60)["id"]
            for name, text in TEXTS.items()
        }
        items: list[GoldenItemInput] = [
            {"query": query, "relevant": [{"document": documents[name]}]} for query, name in QUERIES.items()
        ]
        client.golden_sets.add_items(golden_set, items)
    return tenant, golden_set


@pytest.mark.capability("cli-evaluate")
def test_evaluate_golden_set_prints_the_table_of_a_file_with_equal_queries(
    stored: tuple[Tenant, str], tmp_path: Path
) -> None:
    tenant, golden_set = stored
    queries = tmp_path / "queries.jsonl"
    rows = [{"id": query, "text": query, "relevant": [name]} for query, name in QUERIES.items()]
    queries.write_text("".join(json.dumps(row) + "\n" for row in rows))
    of_file = run(tenant, str(queries), "--kb", "default", "--measure", "MRR@10", "--measure", "recall@5", *SETTINGS)
    of_set = run(
        tenant, "--set", golden_set, "--kb", "default", "--measure", "MRR@10", "--measure", "recall@5", *SETTINGS
    )
    assert of_set.exit_code == 0, of_set.stderr
    means = [
        [value["mean"] for setting in json_of(tenant, *source)["settings"] for value in setting["measures"].values()]
        for source in ((str(queries), "--kb", "default"), ("--set", golden_set))
    ]
    assert means[0] == means[1]
    assert of_set.stdout.splitlines()[0] == of_file.stdout.splitlines()[0]
    assert "better/worse/equal" in of_set.stdout
    assert "evaluation eval_" in of_set.stderr


def json_of(tenant: Tenant, *source: str) -> dict[str, list[dict[str, dict[str, dict[str, float]]]]]:
    done = run(tenant, *source, *SETTINGS, "--json")
    assert done.exit_code == 0, done.stderr
    printed: dict[str, list[dict[str, dict[str, dict[str, float]]]]] = json.loads(done.stdout)
    return printed


def test_evaluate_golden_set_below_its_minimum_has_status_1(stored: tuple[Tenant, str]) -> None:
    tenant, golden_set = stored
    assert run(tenant, "--set", golden_set, "--fail-under", "recall@5=0.1").exit_code == 0
    below = run(
        tenant, "--set", golden_set, "--setting", 'none={"filter": {"year": 1}}', "--fail-under", "recall@5=0.1"
    )
    assert (below.exit_code, "is below 0.1" in below.stderr) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--set", "gold_x"), "no such golden set"),
        (("--set", "gold_x", "--split", "dev"), "leave out QUERIES"),
        (("--set", "gold_x", "--documents", "source"), "leave out --documents"),
        (("--set", "gold_x", *SETTINGS, "--setting", "third={}"), "at most two settings"),
        ((), "--set"),
    ],
)
def test_evaluate_golden_set_with_wrong_options_has_status_2(
    stored: tuple[Tenant, str], arguments: tuple[str, ...], message: str
) -> None:
    done = run(stored[0], *arguments)
    assert (done.exit_code, message in done.stderr) == (2, True), done.stderr


def test_evaluate_golden_set_with_measure_that_it_lacks_is_refused(stored: tuple[Tenant, str]) -> None:
    done = run(stored[0], "--set", stored[1], "--measure", "MAP@3")
    assert (done.exit_code, "MAP@3" in done.stderr) == (2, True)
