"""Exit status and report of ``make bench NAME=quality`` for figures below their targets."""

from pathlib import Path

import pytest

from benchmarks.quality import (
    TARGETS,
    MeasuredSetting,
    compute_exit_code,
    format_figures,
    format_table_row,
    list_missed_targets,
    main,
)

NAME = "scifact"
AIM = TARGETS[NAME]
KB = {"chunking": {"strategy": "headered", "max_tokens": 170, "overlap_tokens": 0}, "chunk_count": 7}


@pytest.mark.parametrize(
    ("figures", "expected"),
    [
        (AIM, []),
        ({**AIM, "ndcg@10": AIM["ndcg@10"] - 0.0001}, ["ndcg@10"]),
        (dict.fromkeys(AIM, 0.0), list(AIM)),
        ({**AIM, "ndcg@10": float("nan")}, ["ndcg@10"]),
    ],
)
def test_quality_bench_missed_targets_are_listed(figures: dict[str, float], expected: list[str]) -> None:
    assert list_missed_targets(NAME, figures) == expected
    assert format_figures(NAME, figures).count("MISSED") == len(expected)
    assert format_table_row(NAME, KB, {}, figures, dict.fromkeys(AIM, 0.01)).count("(missed)") == len(expected)


@pytest.mark.parametrize(
    ("all_missed", "code"), [([], 0), ([[], []], 0), ([[], ["ndcg@10"]], 1), ([["recall@100"], []], 1)]
)
def test_quality_bench_missed_target_exits_with_1(all_missed: list[list[str]], code: int) -> None:
    assert compute_exit_code([MeasuredSetting("a row", each) for each in all_missed]) == code


def test_quality_bench_missing_data_exits_with_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for data, sets in (("", []), (str(tmp_path), [NAME]), (str(tmp_path), ["unheard-of"])):
        monkeypatch.setenv("CARREL_EVAL_DATA", data)
        assert main(sets) == 2
        assert "CARREL_EVAL_DATA" in capsys.readouterr().err
