"""Rows as tables and records: headers, titles, blank rows, questions and answers, wide and long rows."""

import pytest

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.toolkit.blocks import BlockList
from app.ingestion.parsers.toolkit.rows import add_rows
from app.ingestion.types import BlockKind, TextTooLong

Blocks = list[tuple[str, str]]
BLANK = ["", ""]
LONG = "A sentence that goes on about the car and its many qualities. " * 6


def blocks_of(rows: list[list[str]], max_characters: int = 100_000) -> Blocks:
    blocks = BlockList(ParseOptions(None, max_pages=1, max_characters=max_characters))
    add_rows(iter(rows), blocks, sheet=3)
    assert {block.sheet for block in blocks.blocks} <= {3}
    return [(block.kind.value, block.text) for block in blocks.blocks]


def table(*lines: str) -> tuple[str, str]:
    """Return a table block; the rule below the header is added."""
    rule = "|" + " --- |" * (lines[0].replace("\\|", "").count("|") - 1)
    return "table", "\n".join([lines[0], rule, *lines[1:]])


def captioned(caption: str, *lines: str) -> tuple[str, str]:
    """Return a table block with a caption."""
    return "table", f"{caption}\n{table(*lines)[1]}"


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([], []),
        ([BLANK, []], []),
        ([["a", "b"], ["1", "2"]], [table("| a | b |", "| 1 | 2 |")]),
        ([["a", "b"], ["1"], ["2", "3", "4"]], [table("| a | b | |", "| 1 | | |", "| 2 | 3 | 4 |")]),
        ([["", "a", "", "b"], ["", "1", "", "2"]], [table("| a | b |", "| 1 | 2 |")]),
        ([["Report"], ["of May"], ["a", "b"], ["1", "2"]],
         [captioned("Report\nof May", "| a | b |", "| 1 | 2 |")]),
        ([["Report", ""], BLANK, ["a", "b"], ["1", "2"], BLANK, ["", "The end."]],
         [captioned("Report", "| a | b |", "| 1 | 2 |"), ("paragraph", "The end.")]),
        ([["1"], ["2"], ["3"], ["4"], ["a", "b"], ["1", "2"]],
         [*(("paragraph", text) for text in "1234"), table("| a | b |", "| 1 | 2 |")]),
        ([[LONG], ["Report"], ["a", "b"], ["1", "2"]],
         [("paragraph", LONG.strip()), captioned("Report", "| a | b |", "| 1 | 2 |")]),
        ([["Notes"], BLANK, ["Report"], ["a", "b"], ["1", "2"]],
         [("paragraph", "Notes"), captioned("Report", "| a | b |", "| 1 | 2 |")]),
        ([["Sales", "Sales"], ["a", "b"], ["1", "2"]], [captioned("Sales", "| a | b |", "| 1 | 2 |")]),
        ([["a", "b"], ["1", "2"], ["(1) Without tax."]],
         [("table", "| a | b |\n| --- | --- |\n| 1 | 2 |\n(1) Without tax.")]),
        ([["a", "b"], ["1", "2"], ["Total", ""]], [table("| a | b |", "| 1 | 2 |", "| Total | |")]),
        ([["a", "b"], ["1", "2"], BLANK, ["c", "d"], ["3", "4"]],
         [table("| a | b |", "| 1 | 2 |"), table("| c | d |", "| 3 | 4 |")]),
        ([["a", "b"], ["1", "2"], BLANK, ["x", "4"], ["y", "5"]],
         [table("| a | b |", "| 1 | 2 |"), table("| a | b |", "| x | 4 |", "| y | 5 |")]),
        ([["a", "b"], ["1", "2"], BLANK, ["3", "4", "5"], ["6", "7", "8"]],
         [table("| a | b |", "| 1 | 2 |"), table("| 3 | 4 | 5 |", "| 6 | 7 | 8 |")]),
        ([["a", "b"], ["1", "2"], BLANK, ["sum", "total"]],
         [table("| a | b |", "| 1 | 2 |"), table("| a | b |", "| sum | total |")]),
        ([["land", "2023", "2024"], ["DE", "5", "6"]], [table("| land | 2023 | 2024 |", "| DE | 5 | 6 |")]),
        ([["only", "names"]], [("paragraph", "only\nnames")]),
        ([["word"], ["another"]], [("paragraph", "word"), ("paragraph", "another")]),
        ([["a|b", "c"], ["1\n2", "3"]], [table("| a\\|b | c |", "| 1 2 | 3 |")]),
    ],
    ids=[
        "none", "blank", "table", "ragged", "gap", "titles", "notes", "many-titles", "long-title", "title-of-nothing",
        "merged-title", "footnote", "total", "two-tables", "goes-on", "no-names", "last-row",
        "years", "header-alone", "one-column", "escaped",
    ],
)  # fmt: skip
def test_rows_give_tables(rows: list[list[str]], expected: Blocks) -> None:
    assert blocks_of(rows) == expected


@pytest.mark.parametrize(
    ("rows", "header"),
    [
        ([["Diameter", "Fit h6", "", "Fit k6", ""], ["", "upper", "lower", "upper", "lower"],
          ["6 mm", "0", "-9", "+10", "+1"]],
         "| Diameter | Fit h6 upper | Fit h6 lower | Fit k6 upper | Fit k6 lower |"),
        ([["", "Three months", "Three months", "Six months", "Six months"], ["", "2025", "2024", "2025", "2024"],
          ["Revenue", "5", "6", "7", "8"]],
         "| | Three months 2025 | Three months 2024 | Six months 2025 | Six months 2024 |"),
        ([["Vehicle", "Energy", "Range"], ["", "kWh", "km"], ["A", "15.4", "420"], ["B", "18", "388"]],
         "| Vehicle | Energy kWh | Range km |"),
        ([["Sensor", "Range", "", "Bus"], ["", "min", "max", ""], ["T-1", "-40 °C", "125 °C", "I2C"]],
         "| Sensor | Range min | Range max | Bus |"),
        ([["", "2025", "2024"], ["Current assets:", "", ""], ["Cash", "5", "6"]], "| | 2025 | 2024 |"),
        ([["", "Basic", "Pro"], ["Phone", "no", "yes"], ["Seats", "3", "5"]], "| | Basic | Pro |"),
        ([["Name", "", "Team"], ["Ada", "Lovelace", "red"], ["Alan", "Turing", "blue"]], "| Name | | Team |"),
        ([["Item", "Berlin", "Lyon"], ["", "none", ""], ["Ash", "some", "few"]], "| Item | Berlin | Lyon |"),
    ],
    ids=["spans", "repeated-spans", "units", "mixed", "label", "texts", "texts-under-span", "empty-first"],
)  # fmt: skip
def test_header_of_several_lines_is_joined(rows: list[list[str]], header: str) -> None:
    ((kind, text),) = blocks_of(rows)
    assert (kind, text.split("\n")[0]) == ("table", header)


def test_parts_of_long_table_repeat_caption_and_column_names() -> None:
    rows = [[f"city {n}", f"{n} people", "in service"] for n in range(2000)]
    parts = [text.split("\n") for _, text in blocks_of([["Cities"], ["Where", "Who", "State"], *rows])]
    assert len(parts) > 2
    assert {tuple(lines[:3]) for lines in parts} == {("Cities", "| Where | Who | State |", "| --- | --- | --- |")}
    assert [line for lines in parts for line in lines[3:]] == [f"| {' | '.join(row)} |" for row in rows]
    assert all(len("\n".join(lines)) < 25_000 for lines in parts)


def test_rows_without_names_are_not_repeated() -> None:
    rows = [[f"{n}.5", f"{n} 000"] for n in range(100)]
    lines = [line for _, text in blocks_of(rows) for line in text.split("\n") if "---" not in line]
    assert lines == [f"| {' | '.join(row)} |" for row in rows]


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Question", "Answer"), ("question", "answer"), ("Q", "A"), ("Q:", "A:"), ("Frage", "Antwort"),
        ("Pregunta", "Respuesta"), ("问题", "答案"), ("問題", "回答"), ("Вопрос", "Ответ"), ("السؤال", "الجواب"),
        ("Prompt", "Response"), ("Title", "Content"), ("User question", "Expected answer"), ("QUESTIONS", "ANSWERS"),
        ("faq_question", "faq_answer"),
    ],
)  # fmt: skip
def test_question_and_answer_rows_are_records(question: str, answer: str) -> None:
    rows = [
        ["No.", answer, question],
        ["1", "On Mondays.", "When?"],
        ["2", "Here.\nOr there.", "Where?"],
        ["3", "", "Why?"],
    ]
    name, other = (name[0].upper() + name[1:].rstrip(":") for name in (question, answer))
    assert blocks_of(rows) == [
        ("record", f"{name}: When?\n{other}: On Mondays.\nNo.: 1"),
        ("record", f"{name}: Where?\n{other}: Here.\nOr there.\nNo.: 2"),
        ("record", f"{name}: Why?\nNo.: 3"),
    ]


@pytest.mark.parametrize(
    "rows",
    [
        [["q", "a"], ["1", "12.5"], ["2", "13"]],
        [["Question", "Answer"], ["Berlin", "5"], ["Rome", "7 %"]],
        [["Question", "Points"], ["When?", "Two points"]],
        [["Question id", "Answer"], ["x1", "Yes"]],
        [["Option q", "Option a"], ["red", "blue"]],
    ],
    ids=["quantities", "numbers", "no-answer", "id", "options"],
)
def test_other_tables_are_no_question_and_answer_records(rows: list[list[str]]) -> None:
    assert [kind for kind, _ in blocks_of(rows)] == ["table"]


def test_blank_rows_between_questions_preserve_names() -> None:
    rows = [
        ["Frage", "Antwort"],
        ["Wann?", "Heute."],
        BLANK,
        ["Wo?", "Hier."],
        ["Wer?", "Ich."],
        BLANK,
        ["Was?", "Das."],
    ]
    assert blocks_of(rows) == [
        ("record", f"Frage: {question}\nAntwort: {answer}")
        for question, answer in (("Wann?", "Heute."), ("Wo?", "Hier."), ("Wer?", "Ich."), ("Was?", "Das."))
    ]


def test_wide_row_is_a_record() -> None:
    names = [f"field {n}" for n in range(13)]
    rows = [names, ["a", "", *"bcdefghijkl"], [*"mnopqrstuvwxy", "beyond"]]
    assert blocks_of(rows) == [
        ("record", "Field 0: a\n" + "\n".join(f"Field {n}: {text}" for n, text in enumerate("bcdefghijkl", start=2))),
        ("record", "\n".join(f"Field {n}: {text}" for n, text in enumerate("mnopqrstuvwxy")) + "\nbeyond"),
    ]
    assert [kind for kind, _ in blocks_of([row[:12] for row in rows])] == ["table"]


def test_row_of_long_texts_is_a_record() -> None:
    assert blocks_of([["name", "about"], ["E2", LONG], ["E3", LONG]]) == [
        ("record", f"Name: E2\nAbout: {LONG.strip()}"),
        ("record", f"Name: E3\nAbout: {LONG.strip()}"),
    ]


def test_endless_sheet_ends_at_limit() -> None:
    blocks = BlockList(ParseOptions(None, max_pages=1, max_characters=50_000))
    with pytest.raises(TextTooLong):
        add_rows(iter(lambda: ["again", "and again"], None), blocks)
    assert {block.kind for block in blocks.blocks} == {BlockKind.TABLE}
