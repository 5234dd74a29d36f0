"""reStructuredText: tables with spans, links, notes, substitutions, roles, directives, and what is counted."""

from pathlib import Path

import pytest

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats.rst import rst_parser
from app.ingestion.types import ParsedDocument


def parsed(content: str, directory: Path, options: ParseOptions) -> ParsedDocument:
    path = directory / "page.rst"
    path.write_text(content, encoding="utf-8")
    return rst_parser.parse(path, options)


def texts(content: str, directory: Path, options: ParseOptions) -> list[str]:
    return [block.text for block in parsed(content, directory, options).blocks]


GRID_SPANS = """\
+--------+-------+-------+
| Region | Price         |
|        +-------+-------+
|        | 2023  | 2024  |
+========+=======+=======+
| Europe | 10    | 12    |
|        +-------+-------+
|        | 20    | 24    |
+--------+-------+-------+
| Asia   | on request    |
+--------+---------------+
"""
GRID_LIST = """\
+---------+-----------+
| Feature | Pro       |
+=========+===========+
| Storage | - 100 GB  |
|         | - backup  |
+---------+-----------+
"""
SIMPLE_SPANS = """\
=====  =====  ======
   Inputs     Output
------------  ------
  A      B    A or B
=====  =====  ======
False  False  False
True   False  True
=====  =====  ======
"""


@pytest.mark.parametrize(
    ("content", "table"),
    [
        (
            GRID_SPANS,
            "| Region | Price 2023 | Price 2024 |\n| --- | --- | --- |\n| Europe | 10 | 12 |\n| Europe | 20 | 24 |\n"
            "| Asia | on request | on request |",
        ),
        (GRID_LIST, "| Feature | Pro |\n| --- | --- |\n| Storage | 100 GB; backup |"),
        (
            SIMPLE_SPANS,
            "| Inputs A | Inputs B | Output A or B |\n| --- | --- | --- |\n| False | False | False |\n"
            "| True | False | True |",
        ),
        (
            ".. list-table:: Prices\n   :header-rows: 1\n\n   * - Plan\n     - Use\n   * - Pro\n     - - 1\n       - 2",
            "Prices\n| Plan | Use |\n| --- | --- |\n| Pro | 1; 2 |",
        ),
        (
            '.. csv-table:: Prices\n   :header: "Plan", "Price"\n\n   "Pro", "10, or 12"\n   Max, 20',
            "Prices\n| Plan | Price |\n| --- | --- |\n| Pro | 10, or 12 |\n| Max | 20 |",
        ),
        (
            ".. table:: Truth\n\n   ===  ===\n   A    B\n   ===  ===\n   1    2\n   ===  ===\n",
            "Truth\n| A | B |\n| --- | --- |\n| 1 | 2 |",
        ),
        ("==  ==\nA   B\n==  ==\n1   2\n\\   3\n==  ==", "| A | B |\n| --- | --- |\n| 1 | 2 |\n| | 3 |"),
        ("+---+---+\n| k | 1 |\n+---+---+\n| l | 2 |\n+---+---+", "| | |\n| --- | --- |\n| k | 1 |\n| l | 2 |"),
    ],
    ids=["grid", "list in cell", "simple", "list table", "csv table", "titled table", "empty cell", "no head"],
)  # fmt: skip
def test_rst_table_is_expanded(content: str, table: str, tmp_path: Path, options: ParseOptions) -> None:
    assert texts(content, tmp_path, options)[-1] == table


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("See `our page <https://example.org/p>`_.", "See [our page](https://example.org/p)."),
        ("See `our page`_.\n\n.. _our page: https://example.org/p", "See [our page](https://example.org/p)."),
        ("See Py_ and other_name.\n\n.. _py: https://example.org/", "See [Py](https://example.org/) and other_name."),
        ("A `first`__ and `second`__.\n\n__ https://example.org/1\n.. __: https://example.org/2",
         "A [first](https://example.org/1) and [second](https://example.org/2)."),
        ("See `p <target_>`_.\n\n.. _target: https://example.org/t", "See [p](https://example.org/t)."),
        ("See `Section below`_.", "See Section below."),
        ("Mail `us <mailto:a@example.org>`__.", "Mail [us](mailto:a@example.org)."),
        ("10\\ :sup:`6` cells of H\\ :sub:`2`\\ O", "10⁶ cells of H₂O"),
        ("area in m\\ :superscript:`2`", "area in m²"),
        (":math:`\\frac{a_1}{b}` is small", "\\frac{a_1}{b} is small"),
        ("Limits [1]_ apply [#]_ and [#name]_ [CIT2002]_.\n\n.. [1] One\n.. [#] Two\n.. [#name] Three",
         "Limits [1] apply [2] and [3] [CIT2002]."),
        ("The |product| of |year| and |unknown|.\n\n.. |product| replace:: Example Suite\n.. |year| unicode:: 0x32",
         "The Example Suite of 2 and |unknown|."),
        ("Press |ok|.\n\n.. |ok| image:: ok.png\n   :alt: the OK key", "Press the OK key."),
        ("Call `parse`:py:func: now", "Call parse now"),
        ("An _`inline target` here", "An inline target here"),
        ("``literal :sup:`2` |x| [1]_``", "literal :sup:`2` |x| [1]_"),
    ],
)  # fmt: skip
def test_rst_inline_markup_is_read(content: str, text: str, tmp_path: Path, options: ParseOptions) -> None:
    assert texts(content, tmp_path, options)[0] == text


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (".. warning:: Hot.", ["Warning: Hot."]),
        (".. container:: wide\n\n   Text.", ["Text."]),
        (".. sidebar:: Side\n   :subtitle: Sub\n\n   Text.", ["Side", "Sub", "Text."]),
        (".. tip::\n\n   Read it.", ["Tip:", "Read it."]),
        (".. versionadded:: 2.1\n   The option.", ["New in version 2.1 The option."]),
        (".. image:: a.png\n   :alt: Red wire to L1", ["Red wire to L1"]),
        (
            ".. figure:: a.png\n   :alt: A heron\n      in water\n\n   The caption.",
            ["A heron in water", "The caption."],
        ),
        (".. code-block:: sh\n   :caption: Install it\n\n   make", ["Install it", "make"]),
        (".. raw:: html\n\n   <p>10<sup>6</sup> <b>cells</b></p>", ["10⁶ cells"]),
        ("`Head <https://example.org>`_\n=============================\n\nx", ["Head", "x"]),
        (".. [#] First\n.. [#b] Second", ["[1] First", "[2] Second"]),
    ],
)
def test_rst_directives_are_read(content: str, expected: list[str], tmp_path: Path, options: ParseOptions) -> None:
    assert texts(content, tmp_path, options) == expected


@pytest.mark.parametrize(
    ("content", "code", "count"),
    [
        (".. image:: a.png\n\n.. figure:: b.png", "images_not_read", 2),
        (".. include:: a.rst\n\n.. literalinclude:: b.py", "included_files_not_read", 2),
        (".. csv-table:: T\n   :file: a.csv", "included_files_not_read", 1),
        (".. raw:: html\n\n   <video src=x></video>", "media_not_read", 1),
    ],
)
def test_rst_content_that_is_not_read_is_counted(
    content: str, code: str, count: int, tmp_path: Path, options: ParseOptions
) -> None:
    document = parsed(f"text\n\n{content}", tmp_path, options)
    assert [(warning.code, warning.count) for warning in document.warnings] == [(code, count)]


def test_rst_raw_text_of_another_format_is_counted(tmp_path: Path, options: ParseOptions) -> None:
    assert parsed("text\n\n.. raw:: latex\n\n   two words", tmp_path, options).words_left_out == 2


@pytest.mark.parametrize(
    "content",
    [
        ".. |a| replace:: |a|\n" * 5_000 + "\n|a| " * 5_000, "`a" * 20_000, "a_ " * 20_000 + "\n\n.. _a: https://x.org",
        ":sup:`" * 20_000, "[#]_ " * 20_000, "+--+--+\n" * 5_000, "+--" * 3_000 + "+\n" + "|  " * 3_000 + "|\n",
        "===  ===\n" * 5_000, ".. list-table::\n\n" + "   * - a\n" * 20_000, ".. figure:: x\n   :alt: y\n" * 5_000,
        "`a <" * 10_000, "|a " * 20_000,
    ],
)  # fmt: skip
def test_hostile_rst_takes_linear_time(content: str, tmp_path: Path) -> None:
    """A quadratic parser would take minutes."""
    options = ParseOptions(None, max_pages=10, max_characters=4_000_000)
    parsed(f"begin\n\n{content}", tmp_path, options)
