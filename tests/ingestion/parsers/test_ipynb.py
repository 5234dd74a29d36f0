"""Jupyter notebooks: cells, outputs, images, older formats, and files that are no notebooks."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image

from app.documents.upload.file_signatures import HEAD_BYTES, sniff_media_type
from app.documents.upload.notebooks import NOTEBOOK
from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats import ipynb
from app.ingestion.types import BlockKind, CorruptFile, TextTooLong
from app.warnings import ServiceWarning
from tests.ingestion.parsers.images import png
from tests.ingestion.parsers.word import shown, text_of

if TYPE_CHECKING:
    from app.ingestion.parsers.sandbox.pool import ParserPool

PYTHON = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
PNG = base64.b64encode(png(Image.new("RGB", (80, 80), "red"))).decode()
Output = dict[str, Any]


def code(source: str, *outputs: Output) -> dict[str, Any]:
    return {"cell_type": "code", "metadata": {}, "execution_count": 1, "source": source, "outputs": list(outputs)}


def markdown(*lines: str, **more: Any) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": list(lines), **more}


def data(**formats: Any) -> Output:
    """Return an output; the name ``text_plain`` is the media type text/plain."""
    return {"output_type": "display_data", "data": {name.replace("_", "/"): value for name, value in formats.items()}}


def stream(text: Any) -> Output:
    return {"output_type": "stream", "name": "stdout", "text": text}


def write(path: Path, *cells: dict[str, Any], metadata: dict[str, Any] | None = None) -> Path:
    notebook = {"cells": cells, "metadata": metadata or {}, "nbformat": 4, "nbformat_minor": 5}
    path.write_text(json.dumps(notebook, ensure_ascii=False, indent=1), encoding="utf-8")
    return path


def test_notebook_cells_are_read_in_order(tmp_path: Path, options: ParseOptions) -> None:
    path = write(
        tmp_path / "n",
        markdown("# Sales\n", "\n", "All *figures* in EUR.\n"),
        code("total = 12 / 34\nprint(total)", stream(["0.35\n", "done\n"])),
        markdown("- first\n- second"),
        metadata=PYTHON,
    )
    document = ipynb.parse(path, options)
    assert shown(document) == [
        ("heading", 1, "Sales"),
        ("paragraph", 0, "All figures in EUR."),
        ("paragraph", 0, "Language: python"),
        ("code", 0, "total = 12 / 34\nprint(total)"),
        ("code", 0, "0.35\ndone"),
        ("list_item", 0, "- first"),
        ("list_item", 0, "- second"),
    ]
    assert (document.title, document.warnings) == ("Sales", [])


@pytest.mark.parametrize(
    ("metadata", "language"),
    [
        ({"language_info": {"name": "R"}, "kernelspec": {"language": "x"}}, "R"),
        ({"kernelspec": {"display_name": "Julia 1.10"}}, "Julia 1.10"),
        ({"language": "haskell"}, "haskell"),
        ({"kernelspec": "python3", "language_info": []}, None),
        ({"language_info": {"name": 3}}, None),
    ],
)
def test_notebook_language_precedes_first_code(
    metadata: dict[str, Any], language: str | None, tmp_path: Path, options: ParseOptions
) -> None:
    path = write(tmp_path / "n", markdown("Text"), code(" "), code("x"), code("y"), metadata=metadata)
    expected = ["Text", "x", "y"] if language is None else ["Text", f"Language: {language}", "x", "y"]
    assert text_of(ipynb.parse(path, options)) == expected


@pytest.mark.parametrize(
    ("output", "text"),
    [
        (data(text_plain="<Figure>", text_html="<table><tr><th>a<th>b<tr><td>1<td>2</table>"), "| 1 | 2 |"),
        (data(text_plain=["   a  b\n", "0  1  2"]), "   a  b\n0  1  2"),
        (data(text_plain="x", text_markdown="**Bold** answer"), "Bold answer"),
        (data(text_plain="x", text_latex="$$x = 1$$"), "$$x = 1$$"),
        (data(**{"application_json": {"rate": 0.07}}), '"rate": 0.07'),
        (data(text_html="<script>draw()</script>", text_plain="Chart of 7 points"), "Chart of 7 points"),
        ({"output_type": "execute_result", "data": {"text/plain": "42"}, "execution_count": 2}, "42"),
        ({"output_type": "pyout", "text": ["old ", "result"], "prompt_number": 1}, "old result"),
        ({"output_type": "pyout", "html": "<p>old markup</p>", "text": "x"}, "old markup"),
        (stream("\x1b[31mred\x1b[0m alert \x1b]8;;http://x\x07here\x1b]8;;\x07"), "red alert here"),
        (stream("10 %\r50 %\r100 %\nready\r\n"), "100 %\nready"),
        (
            {"output_type": "error", "ename": "KeyError", "evalue": "'id'", "traceback": ["\x1b[0;31mline 1\x1b[0m"]},
            "line 1\nKeyError: 'id'",
        ),
        ({"output_type": "pyerr", "ename": "E", "evalue": "why", "traceback": ["t", "E: why"]}, "t\nE: why"),
        ({"output_type": "error", "ename": "E", "evalue": "why"}, "E: why"),
    ],
)
def test_notebook_output_is_read(output: Output, text: str, tmp_path: Path, options: ParseOptions) -> None:
    document = ipynb.parse(write(tmp_path / "n", code("run()", output)), options)
    assert text in "\n".join(text_of(document)[1:])
    assert document.warnings == []


def test_notebook_unread_content_is_counted(tmp_path: Path, options: ParseOptions) -> None:
    path = write(
        tmp_path / "n",
        code("plot()", data(text_plain="<Figure size 640x480 with 1 Axes>", **{"image_png": PNG})),
        code("draw()", data(**{"image_svg+xml": "<svg/>"}), data(text_plain="<AxesSubplot:>", image_jpeg="x")),
        code("w()", data(**{"application_vnd.jupyter.widget-view+json": {"model_id": "1"}})),
        code(
            "j()",
            data(application_javascript="go()"),
            data(text_html="<script>go()</script>", text_plain="<IPython.core.display.HTML object>"),
        ),
        markdown("![chart](attachment:c.png)", attachments={"c.png": {"image/png": PNG}}),
    )
    document = ipynb.parse(path, options)
    assert text_of(document) == ["plot()", "draw()", "w()", "j()", "chart"]
    assert [(str(warning.code), warning.message) for warning in document.warnings] == [
        ("images_not_read", "4 images were not read."),
        ("outputs_not_read", "3 outputs of cells were not read: interactive content or data of programs."),
    ]
    assert document.warnings[1].count == 3


def test_notebook_images_are_returned_on_request(tmp_path: Path) -> None:
    path = write(tmp_path / "n", code("plot()", data(**{"image_png": PNG})), code("no()", data(**{"image_png": "%%"})))
    options = ParseOptions(None, max_pages=9, max_characters=10_000, needs_images=True)
    document = ipynb.parse(path, options)
    assert [block.kind for block in document.blocks] == [BlockKind.CODE, BlockKind.IMAGE, BlockKind.CODE]
    assert len(document.images) == 1
    assert document.warnings[0].message == "1 image was not read."


@pytest.mark.parametrize(
    ("metadata", "source", "text"),
    [
        ({}, "as  it\n  is", "as  it\n  is"),
        ({"raw_mimetype": "text/html"}, "<p>one</p>", "one"),
        ({"format": "text/markdown"}, "**one**", "one"),
        ({"raw_mimetype": "text/restructuredtext"}, ".. note:: x", ".. note:: x"),
        ({"raw_mimetype": 7}, "plain", "plain"),
    ],
)
def test_notebook_raw_cell_is_read(
    metadata: dict[str, Any], source: str, text: str, tmp_path: Path, options: ParseOptions
) -> None:
    path = write(tmp_path / "n", {"cell_type": "raw", "metadata": metadata, "source": source})
    assert text_of(ipynb.parse(path, options)) == [text]


def test_notebook_of_format_3_is_read(tmp_path: Path, options: ParseOptions) -> None:
    cells = [
        {"cell_type": "heading", "level": 2, "source": ["Old"]},
        {"cell_type": "heading", "level": "x", "source": "Odd"},
        {"cell_type": "code", "input": ["1 + 1"], "outputs": [{"output_type": "pyout", "text": ["2"]}]},
    ]
    notebook = {
        "metadata": {"name": "The name"},
        "nbformat": 3,
        "nbformat_minor": 0,
        "worksheets": [{"cells": cells}, {"cells": [markdown("second sheet")]}, 5],
    }
    path = tmp_path / "n"
    path.write_text(json.dumps(notebook))
    document = ipynb.parse(path, options)
    assert shown(document) == [
        ("heading", 2, "Old"),
        ("heading", 1, "Odd"),
        ("code", 0, "1 + 1"),
        ("code", 0, "2"),
        ("paragraph", 0, "second sheet"),
    ]
    assert document.title == "The name"


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "7", '{"nbformat": 4}', "[" * 200_000, '{"cells": ' + "[" * 100_000],
    ids=["empty", "brace", "list", "number", "no cells", "deep", "deep cells"],
)
def test_notebook_other_content_is_corrupt(content: str, tmp_path: Path, options: ParseOptions) -> None:
    path = tmp_path / "n"
    path.write_text(content)
    with pytest.raises(CorruptFile):
        ipynb.parse(path, options)


@pytest.mark.parametrize(
    "cells",
    [None, {}, "x", [1, None, "x", []], [{"cell_type": None}], [{"cell_type": "code", "outputs": {"a": 1}}],
     [{"cell_type": "code", "source": {"a": 1}, "outputs": [{"data": []}, {"data": {"text/plain": {}}}, {}]}],
     [{"cell_type": "markdown", "source": [1, None], "attachments": {"a": 1, "b": {"image/png": {}}}}]],
)  # fmt: skip
def test_notebook_with_odd_values_is_read(cells: object, tmp_path: Path, options: ParseOptions) -> None:
    path = tmp_path / "n"
    path.write_text(json.dumps({"cells": cells, "nbformat": 4, "metadata": None}))
    assert ipynb.parse(path, options).blocks == []


def test_notebook_with_too_much_text_is_refused(tmp_path: Path, options: ParseOptions) -> None:
    path = write(tmp_path / "n", *(code("x", stream("word " * 1000)) for _ in range(100)))
    with pytest.raises(TextTooLong):
        ipynb.parse(path, options)


NOTE = {"cells": [{"cell_type": "markdown", "source": "x" * 70_000}], "metadata": {}, "nbformat": 4}


@pytest.mark.parametrize(
    ("content", "filename", "expected"),
    [
        (json.dumps(NOTE), "a.ipynb", NOTEBOOK),
        (json.dumps(NOTE), "a.json", NOTEBOOK),
        (json.dumps(NOTE), "upload", NOTEBOOK),
        (json.dumps(NOTE, indent=4), "a.IPYNB", NOTEBOOK),
        (json.dumps(dict(reversed(list(NOTE.items())))), "a", NOTEBOOK),
        ("\ufeff" + json.dumps(NOTE), "a.ipynb", NOTEBOOK),
        (json.dumps({"nbformat": 3, "worksheets": [{"cells": []}]}), "a", NOTEBOOK),
        (json.dumps(NOTE), "a.txt", "text/plain"),
        (json.dumps({"cells": [1, 2], "metadata": {}}), "a.json", "application/json"),
        (json.dumps({"metadata": {"cells": []}, "nbformat": "no"}), "a.ipynb", "application/json"),
        (json.dumps({"about": '"nbformat": 4 and "cells": [', "x": 1}), "a.json", "application/json"),
        ("no JSON at all", "a.ipynb", "text/plain"),
    ],
)
def test_notebook_is_recognized_by_its_members(content: str, filename: str, expected: str, tmp_path: Path) -> None:
    path = tmp_path / "n"
    path.write_text(content, encoding="utf-8")
    head = path.read_bytes()[:HEAD_BYTES]
    assert sniff_media_type(head, path, filename=filename, declared=None) == expected


async def test_notebook_is_parsed_in_process(pool: ParserPool, tmp_path: Path) -> None:
    path = write(tmp_path / "n", markdown("# Title"), code("1", data(**{"image_png": PNG})))
    document = await pool.parse(path, NOTEBOOK)
    assert [block.text for block in document.blocks] == ["Title", "1"]
    assert document.warnings == [ServiceWarning("images_not_read", "1 image was not read.", 1)]
