"""Limits of titles and headings: every document has them, whatever format it comes from."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from app.ingestion.types import Block, BlockKind, ChunkDraft, PrintedLines

MAX_TITLE = 500
"""Characters of a title or heading; the API's own field ``title`` has the same limit."""

FREE_CHARACTERS = 1_000_000
"""Characters of section titles that the chunks of a document may repeat, however short its text is."""

PER_CHARACTER = 2
"""Characters of section titles that the chunks may repeat for each character of the text, beyond those."""

LONG_TITLE = f"The title has more than {MAX_TITLE} characters: it was shortened, its rest is a paragraph of the text."
REPEATED_TITLES = "The section titles of the chunks were left out in part: together they are far longer than the text."
_LAST_WORD = 100


def split_title(text: str) -> tuple[str, str]:
    """Split a text into a title of at most ``MAX_TITLE`` characters and its rest, between words if possible."""
    if len(text) <= MAX_TITLE:
        return text, ""
    space = text.rfind(" ", MAX_TITLE - _LAST_WORD, MAX_TITLE + 1)
    end = space if space > 0 else MAX_TITLE
    return text[:end].rstrip(), text[end:].strip()


def split_headings(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield the blocks; a heading that is too long becomes a heading and a paragraph with its rest."""
    for block in blocks:
        if block.kind is BlockKind.HEADING and len(block.text) > MAX_TITLE:
            yield from _split(block)
        else:
            yield block


def title_warnings(title: str | None, blocks: Iterable[Block]) -> list[str]:
    """Return the warnings for the owner of a document whose title or headings are too long."""
    long = sum(block.kind is BlockKind.HEADING and len(block.text) > MAX_TITLE for block in blocks)
    told = [LONG_TITLE] if title is not None and len(title) > MAX_TITLE else []
    if long:
        rest = f"more than {MAX_TITLE} characters: the rest of each is a paragraph of the text."
        told.append(f"{long if long > 1 else 'A'} heading{'s have' if long > 1 else ' has'} {rest}")
    return told


def limit_section_titles(drafts: Sequence[ChunkDraft], characters: int) -> tuple[list[ChunkDraft], list[str]]:
    """Return the chunks with section titles that are linear in the text, and a warning if some were left out.

    Every chunk repeats the titles above it. If all of them together are too long, each chunk keeps its innermost ones
    up to an equal share.

    Args:
        drafts: The chunks of one document.
        characters: The length of its text.
    """
    allowed = FREE_CHARACTERS + PER_CHARACTER * characters
    if sum(sum(map(len, draft.section_titles)) for draft in drafts) <= allowed:
        return list(drafts), []
    share = allowed // len(drafts)
    return [replace(draft, section_titles=_innermost(draft.section_titles, share)) for draft in drafts], [
        REPEATED_TITLES
    ]


def _innermost(titles: Sequence[str], share: int) -> tuple[str, ...]:
    kept: list[str] = []
    for title in reversed(titles):
        share -= len(title)
        if share < 0:
            break
        kept.append(title)
    return tuple(reversed(kept))


def _split(block: Block) -> Iterator[Block]:
    title, rest = split_title(block.text)
    begin = len(block.text) - len(rest)
    printed = block.printed
    yield replace(block, text=title, printed=printed and _lines(printed, 0, len(title)))
    if rest:
        printed = printed and _lines(printed, begin, len(block.text))
        yield replace(block, kind=BlockKind.PARAGRAPH, text=rest, level=0, printed=printed)


def _lines(printed: PrintedLines, begin: int, end: int) -> PrintedLines | None:
    """The lines of a range of the block's text, as ranges of that part."""
    lines = array("i")
    for place in range(0, len(printed.lines), 6):
        start, stop = max(printed.lines[place], begin), min(printed.lines[place + 1], end)
        if start < stop:
            lines.extend((start - begin, stop - begin, *printed.lines[place + 2 : place + 6]))
    return replace(printed, lines=lines) if lines else None
