"""The word list of the commit hook, and the paths that AGENTS.md names."""

import re
from pathlib import Path

import pytest

from scripts.check_words import Text, find_faults, list_texts

ROOT = Path(__file__).parents[1]
PYTHON = '''"""A module."""

# A comment of
# two lines.
LIMIT = 1  # noqa: S101
"""An attribute."""


def count(text: str) -> str:
    """Count.

    Args:
        text: The text.
    """
    return f"the file {text} is too large"


QUERY = "select a from b where c = 1"
ANSWER_TASK = "answer the question in a few words"
'''
PAGE = """# A title

A paragraph of
two lines with `code`.

- an item
- another

| a cell | a second |
| --- | --- |

```bash
beside
```
"""


def faults_of(text: str, kind: str = "paragraph") -> list[str]:
    return list(find_faults(Text("docs/a.md", 1, kind, text)))


def test_list_texts_python_yields_docstrings_comments_and_messages() -> None:
    texts = {(item.kind, item.text.strip()) for item in list_texts("app/a.py", PYTHON)}
    assert texts == {
        ("module docstring", "A module."),
        ("comment", "A comment of\ntwo lines."),
        ("comment", ""),
        ("attribute docstring", "An attribute."),
        ("function docstring", "Count.\n\nArgs:\ntext: The text."),
        ("message", "the file `x` is too large"),
    }


def test_list_texts_markdown_yields_paragraphs_items_and_cells() -> None:
    texts = [item.text for item in list_texts("docs/a.md", PAGE)]
    expected = ["A title", "A paragraph of\ntwo lines with `code`.", "an item", "another", "a cell", "a second"]
    assert texts == expected


@pytest.mark.parametrize("word", ["told", "beside", "Nobody", "of its own", "what it costs", "lanes", "but for"])
def test_find_faults_forbidden_word_is_reported(word: str) -> None:
    assert faults_of(f"A sentence {word} here.")


@pytest.mark.parametrize(
    "text", ["The wall clock.", "`tell` is code.", "The [label](beside.md)", "a wallet", "ADR-told.md"]
)
def test_find_faults_plain_text_has_none(text: str) -> None:
    assert faults_of(text) == []


def test_find_faults_long_sentence_is_reported() -> None:
    assert faults_of("word " * 25 + ".") == []
    assert "26 words" in faults_of("word " * 26 + ".")[0]
    assert faults_of("word " * 20 + "end. " + "word " * 20) == []


@pytest.mark.parametrize("opening", ["Those", "The same", "As", "What", "Of", "Where"])
def test_find_faults_docstring_with_forbidden_opening_is_reported(opening: str) -> None:
    assert faults_of(f"{opening} rows.", "module docstring")


def test_find_faults_function_docstring_begins_with_a_verb() -> None:
    assert faults_of("Return the rows.", "function docstring") == []
    assert faults_of("The rows.", "function docstring")
    assert faults_of("The rows.", "property docstring") == []


def test_agents_page_names_paths_that_exist() -> None:
    page = (ROOT / "AGENTS.md").read_text()
    named = re.findall(r"`((?:app|carrel|tests|harness|proofs|benchmarks|migrations|docs)/[\w./-]*)`", page)
    paths = {path for path in named if "<" not in path}
    assert len(paths) > 15
    assert {path for path in paths if not (ROOT / path).exists()} == set()


def test_agents_page_names_registries_that_exist() -> None:
    page = (ROOT / "AGENTS.md").read_text()
    registries = re.findall(r"`([A-Z]+)` in `([\w./]+\.py)`", page)
    assert len(registries) >= 5
    for name, path in registries:
        assert re.search(rf"^{name}\b.* = ", (ROOT / path).read_text(), re.MULTILINE), name
