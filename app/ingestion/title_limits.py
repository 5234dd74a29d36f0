"""Length limits of titles and headings, which apply to documents of every format."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from app.ingestion.types import Block, BlockKind, ChunkDraft, LineLayout
from app.warnings import ServiceWarning, WarningCode

MAX_TITLE_CHARACTERS = 500
"""Maximum number of characters of a title or heading; the field ``title`` of the API has the same limit."""

FREE_TITLE_CHARACTERS = 1_000_000
"""Number of characters of section titles that the chunks of any document may repeat, even if its text is short."""

MAX_TITLE_RATIO = 2
"""Number of further characters of section titles that the chunks may repeat for each character of the text."""

TITLE_SHORTENED = ServiceWarning(
    WarningCode.TITLE_SHORTENED,
    f"The title has more than {MAX_TITLE_CHARACTERS} characters: it was shortened, and its rest became a paragraph.",
)
SECTION_TITLES_OMITTED = ServiceWarning(
    WarningCode.SECTION_TITLES_OMITTED,
    "Chunks repeat only their innermost section titles, because all titles together are far longer than the text.",
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
    """Return the warnings for the owner of a document about a title or headings that are too long.

    Args:
        title: Title of the document before it is shortened.
        blocks: Blocks of the document before headings are split.
    """
    long_headings = sum(block.kind is BlockKind.HEADING and len(block.text) > MAX_TITLE_CHARACTERS for block in blocks)
    warnings = [TITLE_SHORTENED] if title is not None and len(title) > MAX_TITLE_CHARACTERS else []
    if long_headings:
        explanation = f"more than {MAX_TITLE_CHARACTERS} characters: the rest of each became a paragraph."
        subject = f"{long_headings} headings have" if long_headings > 1 else "A heading has"
        warnings.append(ServiceWarning(WarningCode.HEADINGS_SHORTENED, f"{subject} {explanation}"))
    return warnings


def limit_section_titles(
    drafts: Sequence[ChunkDraft], text_length: int
) -> tuple[list[ChunkDraft], list[ServiceWarning]]:
    """Limit the section titles of the chunks, so that their total length is linear in the length of the text.

    Every chunk repeats the titles above it. If all of them together are too long, each chunk keeps its innermost titles
    up to an equal share of the limit.

    Args:
        drafts: The chunks of one document.
        text_length: Number of characters of the document's text.

    Returns:
        The chunks, and a warning if titles were left out.
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
    yield _cut_block(block, 0, len(title))
    if remainder:
        yield replace(_cut_block(block, remainder_start, len(block.text)), kind=BlockKind.PARAGRAPH, level=0)


def _cut_block(block: Block, start: int, end: int) -> Block:
    line_layout = block.line_layout and _slice_lines(block.line_layout, start, end)
    source_map = block.source_map and block.source_map.slice(start, end)
    place_map = block.place_map and block.place_map.slice(start, end)
    return replace(
        block, text=block.text[start:end], line_layout=line_layout, source_map=source_map, place_map=place_map
    )


def _slice_lines(line_layout: LineLayout, begin: int, end: int) -> LineLayout | None:
    """Return the lines of ``text[begin:end]`` of a block, with offsets into that part; None if there are none."""
    lines = array("i")
    for position in range(0, len(line_layout.lines), 6):
        start, stop = max(line_layout.lines[position], begin), min(line_layout.lines[position + 1], end)
        if start < stop:
            lines.extend((start - begin, stop - begin, *line_layout.lines[position + 2 : position + 6]))
    return replace(line_layout, lines=lines) if lines else None
