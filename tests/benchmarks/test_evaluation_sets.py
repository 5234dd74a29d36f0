"""Scores of questions about filings, of documents and of excerpts."""

import json
from pathlib import Path
from typing import Any

import pytest

from app.cli.evaluation.datasets import CorpusLine, EvaluationQuery, ExcerptReference
from benchmarks.evaluation_sets import DocumentSet, Probe, contains_figures, find_rank, read_filings, read_set


def build_result(document: str, text: str) -> dict[str, Any]:
    return {"document": document, "text": text, "score": 1.0}


@pytest.mark.parametrize(
    ("text", "figures", "expected"),
    [
        ("Goodwill | 4,244 | 4,262", ["4,244"], True),
        ("Goodwill 14,244", ["4,244"], False),
        ("Goodwill 4,2445", ["4,244"], False),
        ("Goodwill 4,244.5", ["4,244"], False),
        ("Goodwill 4,244, and more.", ["4,244"], True),
        ("Goodwill 4,244.", ["4,244"], True),
        ("margin of 28.3% in 2023", ["28.3"], True),
        ("margin of 28.35%", ["28.3"], False),
        ("**3,555**\\|4,271", ["3,555", "4,271"], True),
        ("3,555 alone", ["3,555", "4,271"], False),
        ("<td>8,702</td><td>8,982</td>", ["8,702", "8,982"], True),
        ("wide digits: 392", ["392"], True),
        ("Net  \n LOSS", ["net loss"], True),
        ("", ["1"], False),
    ],
)
def test_passage_with_figures_is_compared_by_whole_numbers(text: str, figures: list[str], expected: bool) -> None:
    assert contains_figures(text, figures) == expected


def test_rank_of_an_answer_needs_the_right_file_and_all_figures() -> None:
    probe = Probe("a.pdf", ["12", "34"])
    results = [build_result("b.pdf", "12 34"), build_result("a.pdf", "12"), build_result("a.pdf", "34 and 12")]
    assert find_rank(results, probe) == 3
    assert find_rank(results[:2], probe) is None
    assert find_rank([], probe) is None


@pytest.mark.parametrize(
    ("rank", "measure", "expected"),
    [
        (1, "recall@5", 1),
        (5, "recall@5", 1),
        (6, "recall@5", 0),
        (1, "ndcg@10", 1),
        (3, "ndcg@10", 0.5),
        (11, "ndcg@10", 0),
        (None, "ndcg@10", 0),
    ],
)
def test_filings_score_depends_on_the_first_right_passage(
    tmp_path: Path, rank: int | None, measure: str, expected: float
) -> None:
    folder = tmp_path / "filings-dev"
    folder.mkdir()
    line = {"id": "q", "file": "a.pdf", "question": "How much?", "needs": ["7"], "labels": []}
    (folder / "probes.jsonl").write_text(json.dumps(line) + "\n")
    results = [build_result("a.pdf", "7" if place == rank else "8") for place in range(1, 13)]
    scores = read_set(tmp_path, "filings-dev").score(measure, [{"query": "q", "results": results}])
    assert scores == {"q": expected}
    assert [query.search_body for query in read_filings(tmp_path).queries] == [{"query": "How much?"}]


def test_document_set_scores_documents_and_excerpts() -> None:
    corpus = [CorpusLine(id="1", text="alpha beta gamma"), CorpusLine(id="2", text="delta epsilon")]
    references = (ExcerptReference(document="1", span=(0, 10)),)
    queries = [EvaluationQuery("q", {"query": "?"}, {"1": 1, "2": 0}, references)]
    evaluation_set = DocumentSet("own", corpus, queries)
    run = [{"query": "q", "results": [build_result("2", "delta"), build_result("1", "alpha")]}]
    assert evaluation_set.score("recall@1", run) == {"q": 0}
    assert evaluation_set.score("recall@2", run) == {"q": 1}
    assert evaluation_set.score("excerpt_recall@1", run) == {"q": 0}
    assert evaluation_set.score("excerpt_recall@2", run) == {"q": 0.5}
