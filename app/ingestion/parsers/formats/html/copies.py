"""Removal of hidden parts of a page that repeat its visible text, such as a menu for small screens."""

from collections.abc import Iterator, Sequence

from app.ingestion.parsers.formats.html.raw_blocks import RawBlock

_RUN_WORDS = 4
MIN_COPY_WORDS = 6
"""Minimum number of words of a hidden part that counts as a copy. A shorter part may be a separate answer."""


def drop_copies(blocks: Sequence[RawBlock], panels: Sequence[tuple[int, int]]) -> list[RawBlock]:
    """Return the blocks without the hidden parts whose words are all in the visible part, in the same order.

    Args:
        blocks: Blocks of the page.
        panels: Ranges of the blocks of hidden parts.
    """
    if not panels:
        return list(blocks)
    hidden = {index for start, end in panels for index in range(start, end)}
    visible = {run for index, block in enumerate(blocks) if index not in hidden for run in _iter_runs(block.text)}
    dropped: set[int] = set()
    for start, end in panels:
        words = sum(len(block.text.split()) for block in blocks[start:end])
        runs = (run for block in blocks[start:end] for run in _iter_runs(block.text))
        if words >= MIN_COPY_WORDS and all(run in visible for run in runs):
            dropped.update(range(start, end))
    return [block for index, block in enumerate(blocks) if index not in dropped]


def _iter_runs(text: str) -> Iterator[tuple[str, ...]]:
    """Yield each run of four words of a text; the whole text if it is shorter."""
    words = text.casefold().split()
    if len(words) < _RUN_WORDS:
        yield tuple(words)
    for index in range(len(words) - _RUN_WORDS + 1):
        yield tuple(words[index : index + _RUN_WORDS])
