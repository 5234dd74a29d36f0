"""Results within a budget of tokens, and the tables that compare models and chunk sizes."""

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from benchmarks.local_model_runs import parse_names
from benchmarks.model_quality import (
    BUDGETS,
    SizeResult,
    compare_models,
    count_tokens,
    cut_results,
    format_model_rows,
    format_score,
    format_size_rows,
)
from benchmarks.quality import main


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    words = Tokenizer(WordLevel({"?": 0}, unk_token="?"))
    words.pre_tokenizer = Whitespace()
    return words


def build_results(*texts: str) -> list[dict[str, Any]]:
    return [{"document": str(number), "text": text, "score": 1.0} for number, text in enumerate(texts)]


@pytest.mark.parametrize(
    ("budget", "min_share", "expected"),
    [
        (100, 0.0, ["one two three", "four five", "six"]),
        (6, 0.0, ["one two three", "four five", "six"]),
        (5, 0.0, ["one two three", "four five"]),
        (4, 0.0, ["one two three", "four"]),
        (4, 0.5, ["one two three"]),
        (3, 0.0, ["one two three"]),
        (2, 0.0, ["one two"]),
        (2, 0.5, ["one two"]),
        (1, 0.5, []),
        (0, 0.0, []),
    ],
)
def test_cut_results_at_a_budget_return_at_most_its_tokens(
    tokenizer: Tokenizer, budget: int, min_share: float, expected: list[str]
) -> None:
    results = cut_results(build_results("one two three", "four five", "six"), budget, tokenizer, min_share)
    assert [result["text"] for result in results] == expected
    assert sum(count_tokens(result["text"], tokenizer) for result in results) <= budget


def test_cut_results_of_other_scripts_end_at_a_character(tokenizer: Tokenizer) -> None:
    (result,) = cut_results(build_results("größer ist 更大 的"), 3, tokenizer, 0.0)
    assert result["text"] == "größer ist 更大"


def test_format_score_shows_the_paired_difference_to_the_baseline() -> None:
    baseline = {"a": 0.5, "b": 0.25}
    assert format_score(baseline, None) == "0.375"
    assert format_score({"a": 0.75, "b": 0.5}, baseline) == "0.625 (+0.250, +0.250 to +0.250)"
    assert format_score(baseline, baseline) == "0.375 (+0.000, +0.000 to +0.000)"


def test_format_model_rows_compare_each_model_with_the_first() -> None:
    rows = list(format_model_rows({"scifact": {"one": {"a": 1.0}, "two": {"a": 0.5}}}))
    assert rows == ["| scifact | ndcg@10 | 1 | 1.000 | 0.500 (-0.500, -0.500 to -0.500) |"]


def test_compare_models_with_all_scores_in_a_file_measures_nothing(tmp_path: Path) -> None:
    scores = {"scifact": {"two": {"a": 0.5}, "one": {"a": 1.0}, "other": {"a": 0.0}}, "mtrag-un": {}}
    (tmp_path / "scores.json").write_text(json.dumps(scores))
    table = compare_models(tmp_path / "no-data", ["scifact"], ["one", "two"], tmp_path / "scores.json")
    assert table.splitlines()[0] == "| set | measure | questions | one | two |"
    assert table.splitlines()[2:] == ["| scifact | ndcg@10 | 1 | 1.000 | 0.500 (-0.500, -0.500 to -0.500) |"]


def test_format_size_rows_compare_each_size_with_the_first() -> None:
    by_size = {
        size: SizeResult(9, 12.4, {budget: {"a": score} for budget in BUDGETS})
        for size, score in ((170, 1.0), (400, 0.5))
    }
    first, second = format_size_rows("model", "chroma-dev", by_size)
    assert first == "| model | chroma-dev | excerpt_recall | 170 | 9 | 12 | 1.000 | 1.000 |"
    assert second.startswith("| model | chroma-dev | excerpt_recall | 400 | 9 | 12 | 0.500 (-0.500")


@pytest.mark.parametrize("names", ["unheard-of", "", "all-MiniLM-L6-v2,unheard-of"])
def test_parse_names_of_an_unknown_model_fails(names: str) -> None:
    with pytest.raises(ValueError, match="there is no local model"):
        parse_names(names)


@pytest.mark.parametrize("options", [["--models", "unheard-of"], ["--chunk-sizes", "170,large"]])
def test_quality_bench_wrong_comparison_exits_with_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    for name in ("scifact", "chroma-dev", "mtrag-un", "filings-dev"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("CARREL_EVAL_DATA", str(tmp_path))
    assert main(options) == 2
    assert capsys.readouterr().err
