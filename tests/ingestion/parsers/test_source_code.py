"""Source code and YAML: the cuts between blocks, and no loss or change of text."""

import unicodedata
from pathlib import Path

import pytest

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats import source_code, yaml_text
from app.ingestion.parsers.formats.source_code import MAX_BLOCK_CHARACTERS
from app.ingestion.types import BlockKind, CorruptFile
from tests.ingestion.parsers.conftest import ROOT

PYTHON = """\
import os


@cached
def first(*args, **kwargs):
    a = 1

    return a


# about the second
class Second:
    x_y = "z"
"""
JAVA = """\
package a;

public class B {
    private int c;

    public void d() {
        if (c) {

            c++;
        }
    }

}

else_case();
"""
METHOD = "    def m{0}(self):\n        return {0}\n\n        # {1}\n"


def pieces(content: str | bytes, path: Path, options: ParseOptions) -> list[str]:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    parser = yaml_text.parse if path.suffix == ".yaml" else source_code.parse
    blocks = parser(path, options).blocks
    assert {block.kind for block in blocks} <= {BlockKind.CODE}
    return [block.text for block in blocks]


@pytest.mark.capability("format-code")
@pytest.mark.parametrize(
    ("content", "starts"),
    [
        (PYTHON, ["import os", "@cached", "# about the second"]),
        (JAVA, ["package a;", "public class B {", "else_case();"]),
        (PYTHON.replace("\n", "\r\n"), ["import os", "@cached", "# about the second"]),
        ("    indented\n\n  all over\n\n\tthe place", ["    indented"]),
        ("one line", ["one line"]),
        ("\n \n\n", []),
        ("", []),
    ],
)
def test_code_is_cut_between_definitions(
    content: str, starts: list[str], tmp_path: Path, options: ParseOptions
) -> None:
    found = pieces(content, tmp_path / "code.x", options)
    assert [piece.split("\n")[0] for piece in found] == starts
    assert "".join("".join(found).split()) == "".join(content.split())


def test_code_long_class_is_cut_between_methods(tmp_path: Path, options: ParseOptions) -> None:
    methods = [METHOD.format(number, "x" * MAX_BLOCK_CHARACTERS) for number in range(3)]
    found = pieces("class A:\n    b = 1\n\n" + "\n".join(methods), tmp_path / "code.py", options)
    starts = [piece.split("\n")[0] for piece in found]
    assert starts == ["class A:", "    def m0(self):", "        # " + "x" * MAX_BLOCK_CHARACTERS] + [
        line for number in (1, 2) for line in (f"    def m{number}(self):", "        # " + "x" * MAX_BLOCK_CHARACTERS)
    ]


@pytest.mark.parametrize("path", ["app/worker/loop.py", "docker-compose.yml", "Makefile"])
def test_code_of_real_file_is_complete(path: str, tmp_path: Path, options: ParseOptions) -> None:
    content = unicodedata.normalize("NFKC", (ROOT / path).read_text("utf-8"))  # as the parser reads it
    for suffix in (".x", ".yaml"):
        found = pieces(content, tmp_path / f"copy{suffix}", options)
        assert len(found) > 1
        assert "".join("".join(found).split()) == "".join(content.split())


@pytest.mark.parametrize(
    ("content", "blocks"),
    [
        ("a: 1\nb: 2\n", ["a: 1\nb: 2"]),
        ("a: 1\nb:\n  c: 2\n# about d\nd: 3\ne: 4", ["a: 1\nb:\n  c: 2", "# about d\nd: 3\ne: 4"]),
        ("- a: 1\n  b: 2\n- a: 3\n- a: 4", ["- a: 1\n  b: 2", "- a: 3\n- a: 4"]),
        ("a:\n- 1\n- 2\nb: 3", ["a:\n- 1\n- 2", "b: 3"]),
        ("a: 1\n---\nb: 2\n...\n", ["a: 1", "---\nb: 2\n..."]),
        ("a: &x [1,\n 2\n]\nb: *x", ["a: &x [1,\n 2\n]", "b: *x"]),
        ("# only a comment", ["# only a comment"]),
        ("größe: ümlaut".encode("cp1252"), ["größe: ümlaut"]),
        ("", []),
    ],
)
def test_yaml_is_cut_at_outermost_keys(
    content: str | bytes, blocks: list[str], tmp_path: Path, options: ParseOptions
) -> None:
    assert pieces(content, tmp_path / "data.yaml", options) == blocks


@pytest.mark.parametrize("suffix", [".py", ".yaml"])
def test_code_binary_file_is_corrupt(suffix: str, tmp_path: Path, options: ParseOptions) -> None:
    with pytest.raises(CorruptFile):
        pieces(bytes(range(256)) * 40, tmp_path / f"binary{suffix}", options)
