"""Limits of titles and headings: every document has them, whatever format it comes from."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from app.ingestion.types import Block, BlockKind, ChunkDraft, LineLayout
from app.warnings import ServiceWarning, WarningCode

MAX_TITLE_CHARACTERS = 500
"""Characters of a title or heading; the API's own field ``title`` has the same limit."""

FREE_TITLE_CHARACTERS = 1_000_000
"""Characters of section titles that the chunks of a document may repeat, however short its text is."""

MAX_TITLE_RATIO = 2
"""Characters of section titles that the chunks may repeat for each character of the text, beyond those."""

TITLE_SHORTENED = ServiceWarning(
    WarningCode.TITLE_SHORTENED,
    f"The title has more than {MAX_TITLE_CHARACTERS} characters: "
    "it was shortened, its rest is a paragraph of the text.",
)
SECTION_TITLES_OMITTED = ServiceWarning(
    WarningCode.SECTION_TITLES_OMITTED,
    "The section titles of the chunks were left out in part: together they are far longer than the text.",
)
_MAX_WORD_CHARACTERS = 100


def split_title(text: str) -> tuple[str, str]:
    """Split a text into a title of at most ``MAX_TITLE_CHARACTERS`` and its rest, between words if possible."""
    if len(text) <= MAX_TITLE_CHARACTERS:
        return text, ""
    space = text.rfind(" ", MAX_TITLE_CHARACTERS - _MAX_WORD_CHARACTERS, MAX_TITLE_CHARACTERS + 1)
    end = space if space > 0 else MAX_TITLE_CHARACTERS
    return text[:end].rstrip(), text[end:].strip()


def split_headings(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield the blocks; a heading that is too long becomes a heading and a paragraph with its rest."""
    for block in blocks:
        if block.kind is BlockKind.HEADING and len(block.text) > MAX_TITLE_CHARACTERS:
            yield from _split_heading(block)
        else:
            yield block


def list_title_warnings(title: str | None, blocks: Iterable[Block]) -> list[ServiceWarning]:
    """Return the warnings for the owner of a document whose title or headings are too long."""
    long_headings = sum(block.kind is BlockKind.HEADING and len(block.text) > MAX_TITLE_CHARACTERS for block in blocks)
    warnings = [TITLE_SHORTENED] if title is not None and len(title) > MAX_TITLE_CHARACTERS else []
    if long_headings:
        explanation = f"more than {MAX_TITLE_CHARACTERS} characters: the rest of each is a paragraph of the text."
        subject = f"{long_headings} headings have" if long_headings > 1 else "A heading has"
        warnings.append(ServiceWarning(WarningCode.HEADINGS_SHORTENED, f"{subject} {explanation}"))
    return warnings


def limit_section_titles(
    drafts: Sequence[ChunkDraft], text_length: int
) -> tuple[list[ChunkDraft], list[ServiceWarning]]:
    """Return the chunks with section titles that are linear in the text, and a warning if some were left out.

    Every chunk repeats the titles above it. If all of them together are too long, each chunk keeps its innermost ones
    up to an equal share.

    Args:
        drafts: The chunks of one document.
        characters: The length of its text.
    """
    allowed = FREE_TITLE_CHARACTERS + MAX_TITLE_RATIO * text_length
    if sum(sum(map(len, draft.section_titles)) for draft in drafts) <= allowed:
        return list(drafts), []
    share = allowed // len(drafts)
    return [replace(draft, section_titles=_select_innermost(draft.section_titles, share)) for draft in drafts], [
        SECTION_TITLES_OMITTED
    ]


def _select_innermost(titles: Sequence[str], share: int) -> tuple[str, ...]:
    selected: list[str] = []
    for title in reversed(titles):
        share -= len(title)
        if share < 0:
            break
        selected.append(title)
    return tuple(reversed(selected))


def _split_heading(block: Block) -> Iterator[Block]:
    title, remainder = split_title(block.text)
    remainder_start = len(block.text) - len(remainder)
    line_layout = block.line_layout
    yield replace(block, text=title, line_layout=line_layout and _slice_lines(line_layout, 0, len(title)))
    if remainder:
        line_layout = line_layout and _slice_lines(line_layout, remainder_start, len(block.text))
        yield replace(block, kind=BlockKind.PARAGRAPH, text=remainder, level=0, line_layout=line_layout)


def _slice_lines(line_layout: LineLayout, begin: int, end: int) -> LineLayout | None:
    """The lines of a range of the block's text, as ranges of that part."""
    lines = array("i")
    for position in range(0, len(line_layout.lines), 6):
        start, stop = max(line_layout.lines[position], begin), min(line_layout.lines[position + 1], end)
        if start < stop:
            lines.extend((start - begin, stop - begin, *line_layout.lines[position + 2 : position + 6]))
    return replace(line_layout, lines=lines) if lines else None
