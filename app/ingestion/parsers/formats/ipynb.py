"""Parser of Jupyter notebooks (nbformat 3 to 5): text, code and the outputs of its cells."""

import base64
import binascii
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats.html import add_fragment
from app.ingestion.parsers.formats.markdown import add_markdown
from app.ingestion.parsers.toolkit.blocks import BlockList
from app.ingestion.parsers.toolkit.character_decoding import decode_text
from app.ingestion.parsers.toolkit.image_list import ImageList
from app.ingestion.parsers.toolkit.image_warnings import list_image_warnings
from app.ingestion.parsers.toolkit.text_cleanup import clean_line
from app.ingestion.types import BlockKind, CorruptFile, ParsedDocument
from app.warnings import ServiceWarning, WarningCode

_MAX_NAME_CHARACTERS = 100
_MAX_HEADING_LEVEL = 6
# Sequences of control characters that color the text of a terminal, and commands of terminals ([ECMA-48], 5.4).
_TERMINAL_CODE = re.compile(r"\x1b(?:\[[0-?]*+[ -/]*+[@-~]|\][^\x07\x1b]*+(?:\x07|\x1b\\)?|[@-Z\\-_])")
# The plain form of an image or of a program in the page, which says nothing to a reader.
_REPRESENTATION = re.compile(r"<[^<>\n]{0,300}>")
# Names of the outputs of nbformat 3, which became media types in nbformat 4.
_OLD_OUTPUT_NAMES = {
    "text": "text/plain", "html": "text/html", "latex": "text/latex", "json": "application/json",
    "javascript": "application/javascript", "png": "image/png", "jpeg": "image/jpeg", "svg": "image/svg+xml",
    "pdf": "application/pdf",
}  # fmt: skip


def parse(path: Path, options: ParseOptions) -> ParsedDocument:
    """Parse a notebook. Cells of text are read as Markdown, cells of code and their text outputs as code.

    Args:
        path: File to read.
        options: Options and limits.

    Returns:
        The blocks in the order of the cells, with warnings about images and other outputs that were not read. The title
        is the notebook's title, else its first heading of level 1.

    Raises:
        CorruptFile: The file is not a notebook.
        TextTooLong: The notebook has more characters or nodes than the limits allow.
    """
    decoded = decode_text(path.read_bytes(), encoding=options.encoding)
    notebook = _load_notebook(decoded.text)
    reader = _NotebookReader(options, _read_language(notebook))
    for cell in _iter_cells(notebook):
        reader.read_cell(cell)
    metadata = _get_mapping(notebook, "metadata")
    title = clean_line(_join_lines(metadata.get("title")) or _join_lines(metadata.get("name")))
    return ParsedDocument(
        reader.blocks.blocks,
        title=title or reader.blocks.find_first_heading(level=1),
        warnings=[*decoded.warnings, *reader.list_warnings()],
        images=reader.images.images,
    )


def _load_notebook(text: str) -> dict[str, Any]:
    try:
        notebook = json.loads(text)
    except ValueError as exc:
        raise CorruptFile("The notebook is not valid JSON; upload an intact copy.") from exc
    except RecursionError as exc:
        raise CorruptFile("The data in this notebook is nested too deeply.") from exc
    if not isinstance(notebook, dict) or not ("cells" in notebook or "worksheets" in notebook):
        raise CorruptFile("The file is not a notebook: it has no cells.")
    return notebook


def _iter_cells(notebook: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the cells. Notebooks of nbformat 3 have them in worksheets."""
    holders = [notebook, *_list_mappings(notebook.get("worksheets"))]
    for holder in holders:
        yield from _list_mappings(holder.get("cells"))


def _read_language(notebook: dict[str, Any]) -> str:
    """Return the name of the programming language; empty if the notebook has none."""
    metadata = _get_mapping(notebook, "metadata")
    kernel = _get_mapping(metadata, "kernelspec")
    for name in (
        _get_mapping(metadata, "language_info").get("name"),
        kernel.get("language"),
        kernel.get("display_name"),
        metadata.get("language"),
    ):
        if isinstance(name, str) and name.strip():
            return clean_line(name)[:_MAX_NAME_CHARACTERS]
    return ""


def _get_mapping(holder: dict[str, Any], name: str) -> dict[str, Any]:
    value = holder.get(name)
    return value if isinstance(value, dict) else {}


def _list_mappings(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _join_lines(value: Any) -> str:
    """Return a text that a notebook stores as one string or as a list of lines."""
    if isinstance(value, list):
        return "".join(line for line in value if isinstance(line, str))
    return value if isinstance(value, str) else ""


def _clean_terminal_text(text: str) -> str:
    """Return the text that a terminal shows: without color codes, and without lines that a later one overwrites."""
    text = _TERMINAL_CODE.sub("", text)
    if "\r" in text:
        return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return text


class _NotebookReader:
    """Reader of the cells of one notebook, with counters of the content that it does not read."""

    def __init__(self, options: ParseOptions, language: str) -> None:
        self.blocks = BlockList(options)
        self.images = ImageList(self.blocks, options)
        self._language = language
        self._unread_images = 0
        self._unread_outputs = 0

    def read_cell(self, cell: dict[str, Any]) -> None:
        """Add the blocks of one cell, of its attachments and of its outputs."""
        kind = cell.get("cell_type")
        source = _join_lines(cell.get("source", cell.get("input")))
        if kind == "code":
            self._add_code(source)
        elif kind == "heading":  # nbformat 3
            level = cell.get("level")
            level = level if isinstance(level, int) and 1 <= level <= _MAX_HEADING_LEVEL else 1
            self.blocks.add(BlockKind.HEADING, source, level=level)
        elif kind == "raw":
            self._add_raw_text(source, _get_mapping(cell, "metadata"))
        else:
            add_markdown(source, self.blocks)
        for attachment in _get_mapping(cell, "attachments").values():
            self._read_image_data(attachment if isinstance(attachment, dict) else {})
        for output in _list_mappings(cell.get("outputs")):
            self._read_output(output)

    def list_warnings(self) -> list[ServiceWarning]:
        """Return the warnings about images and outputs that were not read."""
        warnings = list_image_warnings(self._unread_images + self.images.skipped_count)
        if count := self._unread_outputs:
            subject = "1 output of a cell was" if count == 1 else f"{count} outputs of cells were"
            message = f"{subject} not read: interactive content or data of programs."
            warnings.append(ServiceWarning(WarningCode.OUTPUTS_NOT_READ, message, count))
        return warnings

    def _add_code(self, source: str) -> None:
        if source.strip() and self._language:
            self.blocks.add(BlockKind.PARAGRAPH, f"Language: {self._language}")
            self._language = ""
        self.blocks.add(BlockKind.CODE, source)

    def _add_raw_text(self, source: str, metadata: dict[str, Any]) -> None:
        """Add a raw cell, which other programs convert: as Markdown or HTML if the cell says so, else as it is."""
        media_type = str(metadata.get("raw_mimetype") or metadata.get("format") or "")
        if media_type == "text/markdown":
            add_markdown(source, self.blocks)
        elif media_type == "text/html":
            add_fragment(source, self.blocks)
        else:
            self.blocks.add(BlockKind.CODE, source)

    def _read_output(self, output: dict[str, Any]) -> None:
        kind = output.get("output_type")
        if kind == "stream":
            self._add_output_text(_join_lines(output.get("text")))
        elif kind in ("error", "pyerr"):
            self._add_error(output)
        else:
            data = _get_mapping(output, "data") or {
                media_type: output[name] for name, media_type in _OLD_OUTPUT_NAMES.items() if name in output
            }
            self._read_output_data(data)

    def _add_error(self, output: dict[str, Any]) -> None:
        summary = ": ".join(
            part for part in (_join_lines(output.get("ename")), _join_lines(output.get("evalue"))) if part
        )
        traceback = output.get("traceback")
        lines = [line for line in traceback if isinstance(line, str)] if isinstance(traceback, list) else []
        text = _clean_terminal_text("\n".join(lines))
        self._add_output_text(text if summary in text else f"{text}\n{summary}")

    def _add_output_text(self, text: str) -> None:
        self.blocks.add(BlockKind.CODE, _clean_terminal_text(text))

    def _read_output_data(self, data: dict[str, Any]) -> None:
        """Add the most readable form of a result, which a notebook stores in several formats."""
        count = len(self.blocks.blocks)
        has_image = self._read_image_data(data)
        plain = _join_lines(data.get("text/plain"))
        if markdown := _join_lines(data.get("text/markdown")):
            add_markdown(markdown, self.blocks)
        elif markup := _join_lines(data.get("text/html")):
            add_fragment(markup, self.blocks)
        elif latex := _join_lines(data.get("text/latex")):
            self.blocks.add(BlockKind.PARAGRAPH, latex)
        is_representation = (has_image or "text/html" in data) and _REPRESENTATION.fullmatch(plain.strip())
        if len(self.blocks.blocks) == count and not is_representation:
            self._add_output_text(plain)
        if len(self.blocks.blocks) == count and not has_image and data:
            self._read_other_data(data)

    def _read_other_data(self, data: dict[str, Any]) -> None:
        """Add a result in JSON, or count a result in a format that only programs read."""
        value = data.get("application/json")
        if value is None:
            self._unread_outputs += 1
        else:
            self.blocks.add(BlockKind.CODE, json.dumps(value, ensure_ascii=False, indent=1))

    def _read_image_data(self, data: dict[str, Any]) -> bool:
        """Add or count the image of an output or attachment, and return whether there is one.

        An output has one image in several formats.
        """
        names = [name for name in data if name.startswith("image/") or name == "application/pdf"]
        if not names:
            return False
        encoded = next((_join_lines(data[name]) for name in ("image/png", "image/jpeg", *names) if name in data), "")
        try:
            content = base64.b64decode(encoded) if self.images.is_enabled else b""
        except (binascii.Error, ValueError):
            content = b""
        if content:
            self.images.add_file(content)
        else:
            self._unread_images += 1
        return True
