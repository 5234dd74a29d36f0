"""Positions of the HTML that Markdown means in the text of the Markdown file."""

import re
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token

from app.ingestion.parsers.formats.html.markup_scanner import scan_markup
from app.ingestion.parsers.toolkit.source_alignment import SourceText, TextRange

MAX_SEARCHED_LINE = 2_000
"""Maximum length of a line in which a text is searched. The texts of longer lines have the position of the line."""

# The parser takes the same line breaks, after the pairs of CR and LF were replaced.
_LINE = re.compile(r"[^\r\n]*(?:\r?\r\n|\r|\n|\Z)")
_PIECE = re.compile(r"\n|[^\n]+")


@dataclass(slots=True)
class RenderedMarkdown:
    """HTML of Markdown with the lines of the Markdown that each part comes from.

    Attributes:
        markup: The HTML.
        starts: Start of each part of the HTML that has a known line.
        lines: First and last line of each part in the Markdown, two numbers each.
    """

    markup: str = ""
    starts: "array[int]" = field(default_factory=lambda: array("i"))
    lines: "array[int]" = field(default_factory=lambda: array("i"))

    def add_part(self, start: int, first_line: int, last_line: int) -> None:
        """Add the next part of the HTML."""
        self.starts.append(start)
        self.lines.extend((first_line, last_line))

    def find_lines(self, position: int) -> TextRange:
        """Return the first and the last line of a position of the HTML."""
        part = bisect_right(self.starts, position) - 1
        return self.lines[2 * part], self.lines[2 * part + 1]


def render_markdown(parser: MarkdownIt, text: str) -> RenderedMarkdown:
    """Return the HTML of Markdown as the parser renders it, with the lines that its parts come from.

    Args:
        parser: Parser of Markdown.
        text: The Markdown.
    """
    env: dict[str, Any] = {}
    tokens = parser.parse(text, env)
    rendered, length = RenderedMarkdown(), 0
    pieces: list[str] = []
    rendered.add_part(0, 0, 0)
    for index, token in enumerate(tokens):
        piece = _render_token(parser, tokens, index, env)
        if token.map is not None and token.content:
            _add_lines(rendered, token, piece, length)
        pieces.append(piece)
        length += len(piece)
    rendered.markup = "".join(pieces)
    return rendered


def _render_token(parser: MarkdownIt, tokens: Sequence[Token], index: int, env: dict[str, Any]) -> str:
    """Return the HTML of a token, as ``RendererHTML.render`` does for all tokens."""
    token, renderer = tokens[index], cast(RendererHTML, parser.renderer)
    if token.type == "inline":
        return renderer.renderInline(token.children or [], parser.options, env)
    rule = renderer.rules.get(token.type)
    if rule is None:
        return renderer.renderToken(tokens, index, parser.options, env)
    return cast(str, rule(tokens, index, parser.options, env))


def _add_lines(rendered: RenderedMarkdown, token: Token, piece: str, length: int) -> None:
    """Add the parts of a token: one for each line, if the HTML has the same lines as the Markdown."""
    first, end = token.map or [0, 1]
    if not _has_same_lines(token, piece, end - first):
        rendered.add_part(length, first, max(first, end - 1))
        return
    first += token.type == "fence"
    for number, start in enumerate([0, *(match.end() for match in re.finditer("\n", piece))]):
        line = min(first + number, end - 1)
        rendered.add_part(length + start, line, line)


def _has_same_lines(token: Token, piece: str, lines: int) -> bool:
    breaks, expected = piece.count("\n"), token.content.count("\n")
    if token.type in ("fence", "code_block"):
        return breaks - 1 == expected
    return breaks == expected and expected in ((lines, lines - 1) if token.type == "html_block" else (lines - 1,))


def build_markdown_source(rendered: RenderedMarkdown, source: str, start: int) -> SourceText:
    """Return the texts of rendered Markdown with their positions in the file.

    Args:
        rendered: The HTML with its lines.
        source: Decoded text of the file.
        start: Offset of the first line of the Markdown in the source.
    """
    scanned = scan_markup(rendered.markup)
    lines = [match.span() for match in _LINE.finditer(source, start)]
    result = SourceText(source, scanned.text)
    for run_start, run_end, markup_start, _, is_linear in scanned.iter_runs(0, len(scanned.text)):
        for piece in _PIECE.finditer(scanned.text, run_start, run_end):
            offset = piece.start() - run_start if is_linear else 0
            first, last = rendered.find_lines(markup_start + offset)
            line_start, line_end = lines[min(first, len(lines) - 1)][0], lines[min(last, len(lines) - 1)][1]
            at = _find_copy(source, piece[0], line_start, line_end) if is_linear else -1
            if at < 0:
                result.add_run(piece.start(), line_start, line_end, is_linear=False)
            else:
                result.add_run(piece.start(), at, at + len(piece[0]))
    return result


def _find_copy(source: str, text: str, start: int, end: int) -> int:
    """Return the offset of a text that its line has exactly once, and as it is written; -1 if there is none."""
    if end - start > MAX_SEARCHED_LINE or not text.strip():
        return -1
    at = source.find(text, start, end)
    has_other = at < 0 or source.find(text, at + 1, end) >= 0
    is_written = source.find("\\", start, end) < 0 and source.find("&", start, end) < 0
    return at if is_written and not has_other else -1
