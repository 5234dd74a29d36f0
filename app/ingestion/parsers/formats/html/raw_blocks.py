"""Blocks of a page before their text is cleaned."""

from typing import NamedTuple

from app.ingestion.parsers.formats.html.page_positions import BlockPlaces
from app.ingestion.types import BlockKind


class RawBlock(NamedTuple):
    """Block of a page. The text is not clean yet.

    Attributes:
        kind: Kind of the block.
        text: Text of the block.
        level: Level of a heading; 0 for any other kind.
        places: Places of the file that the block was read from.
    """

    kind: BlockKind
    text: str
    level: int = 0
    places: BlockPlaces = BlockPlaces(())
