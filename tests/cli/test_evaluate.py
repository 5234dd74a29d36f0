"""``carrel evaluate`` against a running service: measures, comparisons and refusals."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from app.cli import app
from app.cli.runtime_state import Credentials, write_credentials
from harness.running_service import Service, Tenant

CORPUS = {
    "birds": ("Herons", "Herons wait in the reeds.\n\nThey stand on one leg, and hardly ever move."),
    "fish": ("Trout", "Trout swim upstream in cold rivers."),
    "cars": ("Engines", "The carburettor mixes petrol with air."),
    "bread": ("Baking", "Sourdough is bread that rises without yeast from a packet."),
    "empty": ("", " \n"),
}
QUERIES: list[dict[str, Any]] = [
    {"id": "words", "text": "Where do herons wait?"},
    {"id": "meaning", "text": "a motionless animal"},
    {"id": "turn", "text": "And which trout?", "history": [{"role": "user", "content": "What swims upstream?"}]},
    {"id": "nobody", "text": "What is judged by nobody?"},
]
QRELS = "query-id\tcorpus-id\tscore\nwords\tbirds\t1\nmeaning\tbirds\t1\nturn\tfish\t1\nturn\tgone\t1\n"
EXCERPT = "Herons wait in the reeds."
LEXICAL = 'words={"strategy": "lexical"}'

Evaluate = Callable[..., Result]


def lines(path: Path, objects: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(one) + "\n" for one in objects))


@pytest.fixture(scope="module")
def loaded(service: Service, tmp_path_factory: pytest.TempPathFactory) -> tuple[Tenant, Path]:
    """Tenant with an evaluation set in a knowledge base that the command created, and the set's directory."""
    tenant, place = service.create_tenant(), tmp_path_factory.mktemp("set")
    lines(place / "corpus.jsonl", [{"id": name, "title": t, "text": text} for name, (t, text) in CORPUS.items()])
    lines(place / "queries.jsonl", QUERIES)
    (place / "qrels.tsv").write_text(QRELS)
    start = CORPUS["birds"][1].index(EXCERPT)
    excerpt = {"query": "words", "document": "birds", "start": start, "end": start + len(EXCERPT)}
    lines(place / "references.jsonl", [excerpt])
    done = run(tenant, place, "--kb", "animals", "--load")
    assert done.exit_code == 0, done.stderr
    return tenant, place


def run(tenant: Tenant, place: Path, *arguments: str) -> Result:
    given = ["evaluate", str(place), *arguments, "--url", tenant.service.url, "--key", tenant.key]
    return CliRunner().invoke(app, [*given, "--resamples", "100"])


@pytest.fixture
def evaluate(loaded: tuple[Tenant, Path]) -> Evaluate:
    tenant, place = loaded

    def call(*arguments: str, place: Path = place) -> Result:
        return run(tenant, place, "--kb", "animals", *arguments)

    return call


def figures(result: Result) -> Any:
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_evaluate_load_again_changes_nothing(loaded: tuple[Tenant, Path], evaluate: Evaluate) -> None:
    before = loaded[0].admin.get("/v1/knowledge-bases/animals").json()
    assert before["document_count"] == 4
    assert evaluate("--load").exit_code == 0
    assert loaded[0].admin.get("/v1/knowledge-bases/animals").json() == before
    listed = loaded[0].admin.get("/v1/knowledge-bases/animals/documents").json()["items"]
    assert {one["external_id"]: one["title"] for one in listed} == {
        name: title for name, (title, text) in CORPUS.items() if text.strip()
    }


@pytest.mark.capability("cli-evaluate")
def test_evaluate_measures_equal_expected_values(evaluate: Evaluate) -> None:
    found = figures(evaluate("--json", "--setting", LEXICAL, "--setting", 'both={"strategy": "hybrid"}'))
    assert (found["queries"], found["without_judgements"], found["judged_documents_missing"]) == (3, 1, 1)
    words, both = found["settings"]
    assert (words["name"], words["errors"], words["unlocated"]) == ("words", {}, 0)
    assert set(words["measures"]) == {
        "nDCG@10", "recall@5", "recall@10", "recall@100", "MRR@10", "all@5",
        "excerpt_recall@5", "excerpt_precision@5", "excerpt_IoU@5",
    }  # fmt: skip
    # No word of "meaning" is in its document, and one of the two documents of "turn" is missing.
    assert words["measures"]["recall@5"]["by_query"] == {"words": 1.0, "meaning": 0.0, "turn": 0.5}
    assert both["measures"]["recall@5"]["by_query"] == {"words": 1.0, "meaning": 1.0, "turn": 0.5}
    assert "difference" not in words["measures"]["recall@5"]
    change = both["measures"]["recall@5"]["difference"]
    assert (change["mean"], change["better"], change["worse"]) == (pytest.approx(1 / 3), 1, 0)
    assert change["low"] <= change["mean"] <= change["high"]
    excerpt = {name: words["measures"][f"excerpt_{name}@5"]["mean"] for name in ("recall", "precision", "IoU")}
    ratio = pytest.approx(len(EXCERPT) / len(CORPUS["birds"][1]))
    assert excerpt == {"recall": 1.0, "precision": ratio, "IoU": ratio}


def test_evaluate_beir_set_uses_external_ids(tenant: Tenant, tmp_path: Path) -> None:
    """Documents get their ``_id`` as external id, and judgements refer to it."""
    lines(tmp_path / "corpus.jsonl", [{"_id": name, "title": t, "text": text} for name, (t, text) in CORPUS.items()])
    lines(tmp_path / "queries.jsonl", [{"_id": one["id"], "text": one["text"], "metadata": {}} for one in QUERIES])
    (tmp_path / "qrels").mkdir()
    for split, judged in (("test", "words\tbirds"), ("dev", "turn\tfish")):
        (tmp_path / "qrels" / f"{split}.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}\t1\n")
    for asked, query in (["--load"], "words"), (["--split", "dev"], "turn"):
        found = figures(run(tenant, tmp_path, "--kb", "beir", "--measure", "recall@5", "--json", *asked))
        assert (found["without_judgements"], found["judged_documents_missing"]) == (3, 0)
        assert found["settings"][0]["measures"]["recall@5"]["by_query"] == {query: 1.0}


def test_evaluate_repeated_passage_counts_at_its_place(tenant: Tenant, tmp_path: Path) -> None:
    """Stored text has no heading signs: it is shorter than the corpus's text, increasingly towards its end."""
    note = "Ask the warden before the gate"
    text = f"= = = = Of what to do at every door = = = =\n\n{note}\n\n" * 30
    chunking = {"max_tokens": 16, "overlap_tokens": 0}
    assert tenant.admin.post("/v1/knowledge-bases", json={"name": "gates", "chunking": chunking}).is_success
    lines(tmp_path / "corpus.jsonl", [{"id": "handbook", "text": text}])
    places = [place for place in range(len(text)) if text.startswith(note, place)]
    excerpts = [{"document": "handbook", "start": place, "end": place + len(note)} for place in places]
    lines(tmp_path / "queries.jsonl", [{"id": "q", "text": note, "references": excerpts}])
    asked = ("--setting", LEXICAL, "--measure", "excerpt_recall@100", "--json")
    [setting] = figures(run(tenant, tmp_path, "--kb", "gates", "--load", *asked))["settings"]
    assert setting["measures"]["excerpt_recall@100"]["mean"] == 1.0


def test_evaluate_prints_tables(evaluate: Evaluate) -> None:
    done = evaluate("--setting", LEXICAL, "--setting", "both={}", "--measure", "recall@5")
    assert done.exit_code == 0
    first, _, *tables = done.stdout.splitlines()
    assert (
        first == "3 queries, 1 without judgements, 1 judged documents missing; 95 % confidence intervals, 100 resamples"
    )
    assert tables[0].split() == ["words", "mean", "interval"]
    assert tables[1].split()[:2] == ["recall@5", "0.5000"]
    assert tables[3].split() == ["both", "mean", "interval", "words", "difference", "interval", "better/worse/equal"]
    assert tables[4].split()[:2] == ["recall@5", "0.8333"]
    assert tables[4].split()[-1] == "1/0/2"


def test_evaluate_counts_queries_by_warning_code(evaluate: Evaluate) -> None:
    limited = 'limited={"strategy": "multi_query"}'
    [setting] = figures(evaluate("--json", "--setting", limited, "--measure", "recall@5"))["settings"]
    assert setting["warnings"] == {"chat_model_not_configured": 3}
    table = evaluate("--setting", limited, "--measure", "recall@5").stdout.splitlines()
    assert "  3 queries warned: chat_model_not_configured" in table


def test_evaluate_warns_of_questionable_figures(evaluate: Evaluate) -> None:
    few = 'few={"top_k": 5}'
    settings = figures(evaluate("--json", "--setting", "all={}", "--setting", few, "--measure", "recall@10"))[
        "settings"
    ]
    told = "recall@10: only 5 passages were requested (top_k)"
    assert [setting["remarks"] for setting in settings] == [[], [told]]
    assert f"  {told}" in evaluate("--setting", few, "--measure", "recall@10").stdout.splitlines()
    [setting] = figures(evaluate("--json", "--documents", "title", "--measure", "recall@5"))["settings"]
    assert setting["measures"]["recall@5"]["mean"] == 0
    [remark] = setting["remarks"]
    assert remark.startswith("no query found a judged document: by title they may have other names")


@pytest.mark.parametrize(
    ("floors", "status", "said"),
    [
        (["recall@5=0.83"], 0, []),
        (["recall@5=0.84"], 1, ["recall@5 0.8333 is below 0.84"]),
        (["r@5=0.84", "success@5=1.0", "MRR=1.1"], 1, ["recall@5", "MRR 1.0000 is below 1.1"]),
    ],
)
def test_evaluate_fail_under_sets_exit_status(
    evaluate: Evaluate, floors: list[str], status: int, said: list[str]
) -> None:
    done = evaluate(*(part for floor in floors for part in ("--fail-under", floor)))
    assert done.exit_code == status
    below = [line for line in done.stderr.splitlines() if "below" in line]
    assert len(below) == len(said)
    assert all(part in line for part, line in zip(said, below, strict=True))


def test_evaluate_some_failed_queries_are_counted_and_all_are_fatal(evaluate: Evaluate, tmp_path: Path) -> None:
    asked = [
        {"id": "fine", "text": "Where do herons wait?", "relevant": ["birds"]},
        {"id": "long", "text": "heron " * 6000, "relevant": ["birds"]},
    ]
    lines(tmp_path / "q.jsonl", asked)
    [setting] = figures(evaluate("--json", place=tmp_path / "q.jsonl"))["settings"]
    [(problem, count)] = setting["errors"].items()
    assert (count, setting["measures"]["nDCG@10"]["by_query"]) == (1, {"fine": 1.0, "long": 0.0})
    assert problem.startswith("422 ")
    assert "1 queries failed: 422" in evaluate(place=tmp_path / "q.jsonl").stdout
    refused = evaluate("--setting", 'odd={"strategy": "guess"}')
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "carrel: setting odd: no query was answered: 422 " in refused.stderr


@pytest.mark.parametrize(
    ("kind", "relevant"), [("title", "Herons"), ("metadata.ref.number", "17"), ("source", "herons.txt")]
)
def test_evaluate_matches_documents_by_other_names(service: Service, tmp_path: Path, kind: str, relevant: str) -> None:
    tenant = service.create_tenant()
    path = tmp_path / "herons.txt"
    path.write_text(CORPUS["birds"][1])
    tenant.upload(path, title="Herons", metadata='{"ref": {"number": 17}}')
    tenant.add_text("Something else", metadata={"ref": 17})
    lines(tmp_path / "q.jsonl", [{"id": "q", "text": "Where do herons wait?", "relevant": [relevant]}])
    done = run(tenant, tmp_path / "q.jsonl", "--kb", "default", "--documents", kind, "--json")
    found = figures(done)
    assert found["settings"][0]["measures"]["nDCG@10"]["mean"] == 1.0
    assert found["judged_documents_missing"] is None  # only external ids are looked up


def test_evaluate_failed_document_counts_as_missing(tenant: Tenant, tmp_path: Path) -> None:
    damaged = Path(__file__).parents[1] / "samples" / "truncated.pdf"
    assert tenant.upload(damaged, external_id="damaged")["status"] == "failed"
    tenant.add_text("Herons", external_id="birds")
    lines(tmp_path / "q.jsonl", [{"id": "q", "text": "Herons", "relevant": ["birds", "damaged", "gone"]}])
    found = figures(run(tenant, tmp_path / "q.jsonl", "--kb", "default", "--json"))
    assert found["judged_documents_missing"] == 2
    assert found["settings"][0]["measures"]["recall@5"]["mean"] == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--measure", "nDCG"], None),
        (["--measure", "ndgc@10"], "there is no measure 'ndgc@10'"),
        (["--fail-under", "nDCG@10"], "--fail-under takes a measure and a number"),
        (["--fail-under", "nDCG@10=nan"], "--fail-under takes a measure and a number"),
        (["--setting", "a={"], "--setting a: not NAME=JSON"),
        (["--setting", "a=[]"], "a setting is NAME={"),
        (["--setting", 'a={"score_threshold": NaN}'], "--setting a: not NAME=JSON"),
        (["--setting", 'a={"strategy": "\\ud800"}'], "--setting a: not NAME=JSON"),
        (["--setting", 'a={"knowledge_bases": "x"}'], "knowledge_bases is a list"),
        (["--setting", 'a={"query": "heron"}'], "--setting a: query is not set here"),
        (["--setting", "b={}", "--setting", 'a={"queries": ["heron"]}'], "--setting a: queries is not set here"),
        (["--setting", 'a={"messages": null}'], "--setting a: messages is not set here"),
        (["--setting", "a={}", "--setting", "a={}"], "two settings have the same name"),
        (["--documents", "id"], "--documents is external_id"),
        (["--key", "wrong"], "401 "),
        (["--url", "http://127.0.0.1:9"], "http://127.0.0.1:9 does not answer"),
        (["--url", "ftp://x"], "--url must be an http or https URL"),
        (["--kb", "nowhere"], "404 "),
        (["--corpus", "/nowhere"], "'/nowhere' does not exist"),
    ],
    ids=range(19),
)
def test_evaluate_invalid_arguments_exit_with_2(
    loaded: tuple[Tenant, Path], arguments: list[str], said: str | None
) -> None:
    tenant, place = loaded
    given = {"--kb": "animals", "--url": tenant.service.url, "--key": tenant.key}
    defaults = [part for name, value in given.items() if name not in arguments for part in (name, value)]
    done = CliRunner().invoke(app, ["evaluate", str(place), *defaults, *arguments])
    assert done.exit_code == (0 if said is None else 2), done.stderr
    assert (said or "").lower() in done.stderr.lower()
    assert bool(done.stdout) == (said is None)


def test_evaluate_excerpts_need_corpus(evaluate: Evaluate, loaded: tuple[Tenant, Path], tmp_path: Path) -> None:
    excerpt = {"document": "birds", "text": "They stand on one leg"}
    lines(tmp_path / "q.jsonl", [{"id": "q", "text": "On one leg", "references": [excerpt]}])
    place, corpus = tmp_path / "q.jsonl", str(loaded[1] / "corpus.jsonl")
    assert "give --corpus" in evaluate(place=place).stderr
    assert "nothing to load" in evaluate("--load", place=place).stderr
    assert "no document is judged" in evaluate("--measure", "nDCG@5", "--corpus", corpus, place=place).stderr
    [setting] = figures(evaluate("--json", "--corpus", corpus, place=place))["settings"]
    assert setting["measures"]["excerpt_recall@5"]["mean"] == 1.0


@pytest.mark.parametrize("option", ["--measure", "--fail-under"])
def test_evaluate_measure_without_judgements_is_refused(evaluate: Evaluate, tmp_path: Path, option: str) -> None:
    """Otherwise a floor would pass, because no value is below it."""
    value = "=0.5" if option == "--fail-under" else ""
    excerpt = {"document": "birds", "text": "They stand on one leg"}
    for known, measure, said in (
        ({"relevant": ["birds"]}, "excerpt_recall@5", "no query has excerpts"),
        ({"references": [excerpt]}, "nDCG@5", "no document is judged"),
    ):
        lines(tmp_path / "q.jsonl", [{"id": "q", "text": "On one leg", **known}])
        lines(tmp_path / "corpus.jsonl", [{"id": "birds", "text": CORPUS["birds"][1]}])
        asked = [option, measure + value, "--corpus", str(tmp_path / "corpus.jsonl")]
        done = evaluate(*asked, place=tmp_path / "q.jsonl")
        assert done.exit_code == 2, done.stdout
        assert f"{measure}: {said}" in done.stderr


def test_evaluate_uses_service_of_data_directory(
    loaded: tuple[Tenant, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key is sent to that service alone."""
    tenant, place = loaded
    for name in ("CARREL_URL", "CARREL_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    command = ["evaluate", str(place), "--kb", "animals", "--measure", "MRR"]
    nobody = CliRunner().invoke(app, command)
    assert (nobody.exit_code, "give --url and --key" in nobody.stderr) == (2, True)
    (tmp_path / ".carrel").mkdir()
    write_credentials(tmp_path / ".carrel", Credentials(tenant.service.url, tenant.key))
    assert CliRunner().invoke(app, command).exit_code == 0
    elsewhere = CliRunner().invoke(app, [*command, "--url", "http://127.0.0.1:9"])
    assert (elsewhere.exit_code, "no key for http://127.0.0.1:9" in elsewhere.stderr) == (2, True)
    (tmp_path / ".env").write_text(f"CARREL_URL={tenant.service.url}/\nCARREL_API_KEY=wrong\n")
    assert "401" in CliRunner().invoke(app, command).stderr
    named = {"CARREL_URL": tenant.service.url, "CARREL_API_KEY": tenant.key}
    assert CliRunner().invoke(app, command, env=named).exit_code == 0
    mixed = CliRunner().invoke(app, command, env={"CARREL_API_KEY": tenant.key})
    assert (mixed.exit_code, "CARREL_API_KEY is set in the environment without" in mixed.stderr) == (2, True)


def test_evaluate_help_has_examples() -> None:
    shown = CliRunner().invoke(app, ["evaluate", "--help"])
    assert (shown.exit_code, shown.stdout.count("Example:")) == (0, 4)
