"""Text from runs: raised text, links, gaps and ruby."""

import pytest

from app.ingestion.parsers.toolkit.run_text import Position, RunText

RAISED, LOWERED = Position.RAISED, Position.LOWERED


@pytest.mark.parametrize(
    ("runs", "text"),
    [
        ([("10", None), ("6", RAISED), (" cells", None)], "10⁶ cells"),
        ([("10", None), ("1", RAISED), ("2", RAISED)], "10¹²"),
        ([("x", None), ("1", LOWERED), ("2", RAISED)], "x₁²"),
        ([("6", RAISED)], "⁶"),
        ([("see ", None), ("above", RAISED)], "see above"),
        ([("text", None), ("[1]", RAISED)], "text[¹]"),
        ([("10", None), ("1.5", RAISED)], "10^(1.5)"),
        ([("10", None), ("", RAISED), ("6", None)], "106"),
    ],
)
def test_run_text_positions_become_superscripts(runs: list[tuple[str, Position | None]], text: str) -> None:
    collector = RunText()
    for content, position in runs:
        collector.add(content, position or Position.NORMAL)
    assert collector.finish() == text


def test_run_text_link_holds_the_text_of_its_runs() -> None:
    collector = RunText()
    collector.add("see ")
    collector.open_link("https://example.org")
    collector.add("10")
    collector.add("6", RAISED)
    collector.close_link()
    collector.close_link()
    collector.open_link("https://example.org/open")
    collector.add(" end")
    assert collector.finish() == "see [10⁶](https://example.org) [end](https://example.org/open)"


def test_run_text_number_and_equation_stay_apart() -> None:
    collector = RunText()
    collector.add("1")
    collector.add_apart("2")
    collector.add("3")
    collector.add_note_mark("4")
    collector.end_number()
    collector.add("5")
    assert collector.finish() == "1 2 3 ⁴ 5"


def test_run_text_ruby_of_one_word_follows_it() -> None:
    collector = RunText()
    for base, annotation in (("漢", "かん"), ("字", "じ")):
        collector.add_ruby(base, annotation)
    collector.add("を読む")
    collector.add_ruby("無", "")
    assert collector.finish() == "漢字(かんじ)を読む無"
