"""Choice of documents, translated queries, and shares of the English recall."""

from pathlib import Path

import pytest

from app.cli.evaluation.datasets import CorpusLine, EvaluationQuery
from benchmarks.multilingual import (
    LanguageScores,
    compute_shares,
    format_rows,
    list_missed_targets,
    main,
    merge_sets,
    sample_corpus,
    translate,
)
from benchmarks.multilingual_questions import LANGUAGES, read_questions

CORPUS = [CorpusLine(id=str(number), text="a text") for number in range(50)]
QUERIES = [
    EvaluationQuery(question.source_id, {"query": "?"}, {str(number): 1}, ())
    for number, question in enumerate(read_questions("scifact"))
]


def build_scores(recall: dict[str, float], set_name: str = "scifact", search: str = "default") -> list[LanguageScores]:
    return [LanguageScores(set_name, search, language, [value], [value]) for language, value in recall.items()]


@pytest.mark.parametrize(("others", "count"), [(0, 2), (5, 7), (48, 50), (1500, 50)])
def test_sample_corpus_has_all_judged_documents_in_the_order_of_the_corpus(others: int, count: int) -> None:
    sample = sample_corpus(CORPUS, QUERIES[:2], others)
    assert len(sample) == count
    assert {"0", "1"} <= {document.id for document in sample}
    assert sample == sorted(sample, key=CORPUS.index) == sample_corpus(CORPUS, QUERIES[:2], others)


@pytest.mark.parametrize("language", LANGUAGES)
def test_translate_changes_only_the_text_of_a_query(language: str) -> None:
    translated = translate(QUERIES, "scifact", language)
    assert [query.grades for query in translated] == [query.grades for query in QUERIES]
    assert [query.search_body["query"] for query in translated] == [
        question.texts[language] for question in read_questions("scifact")
    ]


def test_compute_shares_compare_each_language_with_english() -> None:
    shares = compute_shares(build_scores({"english": 0.8, "german": 0.4, "french": 0.8, "spanish": 1.0}))
    assert shares == {"english": 1, "german": 0.5, "french": 1, "spanish": 1.25}
    assert compute_shares(build_scores({"english": 0.0, "german": 0.4})) == {"english": 0, "german": 0}


def test_merge_sets_count_every_question_once() -> None:
    both = [*build_scores({"english": 1.0}), *build_scores({"english": 0.0}, set_name="filings-dev")]
    assert merge_sets(both) == [LanguageScores("both", "default", "english", [1.0, 0.0], [1.0, 0.0])]


@pytest.mark.parametrize(
    ("recall", "expected"),
    [
        ({"german": 0.85, "chinese": 0.84}, ["chinese"]),
        ({"german": 0.9, "chinese": 0.9}, []),
        ({"german": 0.1, "french": 0.0, "spanish": 1.1}, ["german", "french"]),
    ],
)
def test_list_missed_targets_reads_the_default_search(recall: dict[str, float], expected: list[str]) -> None:
    default = build_scores({"english": 1.0, **recall})
    dense = build_scores({"english": 1.0, "german": 0.0, "spanish": 0.0}, search="dense")
    assert list_missed_targets([*dense, *default]) == expected


def test_format_rows_have_recall_ndcg_and_share() -> None:
    rows = list(format_rows("a model", build_scores({"english": 0.8, "german": 0.4})))
    assert rows[0] == "| a model | default | scifact, 1 | 0.800 / 0.800 | 0.400 / 0.400 (50%) |"
    assert len(rows) == 2


def test_multilingual_bench_missing_data_exits_with_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CARREL_EVAL_DATA", str(tmp_path))
    assert main([]) == 2
    assert "CARREL_EVAL_DATA" in capsys.readouterr().err
    for name in ("scifact", "filings-dev"):
        (tmp_path / name).mkdir()
    assert main(["--models", "unheard-of"]) == 2
    assert "unheard-of" in capsys.readouterr().err
