"""reStructuredText: headings, inline markup, lists, literal blocks, tables, directives, and omitted parts."""

from pathlib import Path

import pytest

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats.rst import rst_parser
from app.ingestion.types import CorruptFile, ParsedDocument

PAGE = """\
.. _top:

=====
Title
=====

:Author: Me

One line with ``code_x *a*``, *emphasis* and a `link <https://example.org>`_
goes on here.

Section
-------

.. A comment
   that goes on

   and on

Below
~~~~~

Another
-------
"""


def parsed(content: str | bytes, directory: Path, options: ParseOptions) -> ParsedDocument:
    path = directory / "page.rst"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return rst_parser.parse(path, options)


@pytest.mark.capability("format-rst")
def test_rst_page_is_read(tmp_path: Path, options: ParseOptions) -> None:
    document = parsed(PAGE, tmp_path, options)
    assert document.title == "Title"
    assert [(block.kind.value, block.level, block.text) for block in document.blocks] == [
        ("heading", 1, "Title"),
        ("paragraph", 0, "Author: Me"),
        ("paragraph", 0, "One line with code_x *a*, emphasis and a [link](https://example.org) goes on here."),
        ("heading", 2, "Section"),
        ("heading", 3, "Below"),
        ("heading", 2, "Another"),
    ]


@pytest.mark.parametrize(
    ("content", "blocks"),
    [
        ("- one\n  goes on\n- two", [("list_item", "- one goes on"), ("list_item", "- two")]),
        ("- one\n\n  more", [("list_item", "- one"), ("paragraph", "more")]),
        ("1. a\n#. b\n(c) d", [("list_item", "1. a"), ("list_item", "#. b"), ("list_item", "(c) d")]),
        ("* out\n\n  * in", [("list_item", "- out"), ("list_item", "- in")]),
        ("See::\n\n    a\n\n      b\n\nend", [("paragraph", "See:"), ("code", "a\n\n  b"), ("paragraph", "end")]),
        ("See ::\n\n  a", [("paragraph", "See"), ("code", "a")]),
        ("::\n\n  a", [("code", "a")]),
        ("Two\n  lines::\n\n    a", [("paragraph", "Two\nlines:"), ("code", "a")]),
        ("- item::\n\n    a\n\n  after", [("list_item", "- item:"), ("code", "a"), ("paragraph", "after")]),
        (".. code-block:: python\n   :linenos:\n\n   def f():\n       pass", [("code", "def f():\n    pass")]),
        (".. note:: Be\n   careful.\n\n   Always.", [("paragraph", "Note: Be careful."), ("paragraph", "Always.")]),
        (".. function:: f(a, *args)\n\n   Does it.", [("paragraph", "f(a, *args)"), ("paragraph", "Does it.")]),
        (".. figure:: a.png\n   :alt: x\n\n   Caption", [("paragraph", "x"), ("paragraph", "Caption")]),
        (".. image:: a.png\n   :alt: x\n\n.. toctree::\n\n   b\n\nend", [("paragraph", "x"), ("paragraph", "end")]),
        (".. [1] A note\n   goes on", [("note", "[1] A note goes on")]),
        (".. |sub| image:: x.png\n\n.. __: https://example.org\n\n..\n\n   quoted", [("paragraph", "quoted")]),
        ("term\n   definition\n   goes on", [("paragraph", "term\ndefinition goes on")]),
        (">>> 1 + 1\n2\n\ntext", [("code", ">>> 1 + 1\n2"), ("paragraph", "text")]),
        ("| one\n| two", [("paragraph", "one\ntwo")]),
        ("above\n\n----\n\nbelow", [("paragraph", "above"), ("paragraph", "below")]),
        (
            "+---+----+\n| a | b  |\n+===+====+\n| 1 | x  |\n|   | y  |\n+---+----+",
            [("table", "| a | b |\n| --- | --- |\n| 1 | x y |")],
        ),
        ("+---+---+\n| both  |\n+---+---+", [("table", "both")]),
        (
            "===  ====\nA    B\n===  ====\n1    two\n     more\n\n2    three\n===  ====\n\nend",
            [("table", "| A | B |\n| --- | --- |\n| 1 | two more |\n| 2 | three |"), ("paragraph", "end")],
        ),
        ("===  ====\nno end of it", [("paragraph", "=== ==== no end of it")]),
        (
            ".. list-table:: Name\n   :widths: 1 2\n\n   * - a\n     - b\n   * -\n     - c\n       d",
            [("table", "Name\n| a | b |\n| --- | --- |\n| | c d |")],
        ),
        (".. csv-table::\n\n   a, b\n   1, 2", [("table", "| a | b |\n| --- | --- |\n| 1 | 2 |")]),
        ("a*b*c, foo_bar, *args, **kwargs", [("paragraph", "a*b*c, foo_bar, *args, **kwargs")]),
        ("C:\\temp and \\*", [("paragraph", "C:\\temp and *")]),
        (":py:func:`~os.path.join` and :doc:`the page <a/b>`", [("paragraph", "os.path.join and the page")]),
        ("an odd `` pair", [("paragraph", "an odd `` pair")]),
        ("", []),
    ],
)  # fmt: skip
def test_rst_fragments_give_blocks(
    content: str, blocks: list[tuple[str, str]], tmp_path: Path, options: ParseOptions
) -> None:
    assert [(block.kind.value, block.text) for block in parsed(content, tmp_path, options).blocks] == blocks


def test_rst_binary_file_is_corrupt(tmp_path: Path, options: ParseOptions) -> None:
    with pytest.raises(CorruptFile):
        parsed(bytes(range(256)) * 40, tmp_path, options)
