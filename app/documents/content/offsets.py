"""Conversion of text offsets from code points, which are stored, to UTF-16 units, which browsers count."""

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

# Characters outside the Basic Multilingual Plane: one code point, two UTF-16 units.
_ASTRAL = re.compile("[\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class OffsetConverter:
    """Converter of offsets from code points to the caller's unit.

    ``astral_positions`` are the ascending positions of characters with two UTF-16 units. If ``astral_positions`` is
    empty, offsets stay code points.
    """

    astral_positions: Sequence[int] = ()

    def __call__(self, offset: int) -> int:
        """Convert an offset in code points to the caller's unit."""
        return offset + bisect_left(self.astral_positions, offset)


def create_utf16_converter(text: str) -> OffsetConverter:
    """Return a converter for offsets within ``text``, which may be the beginning of a longer text."""
    return OffsetConverter([match.start() for match in _ASTRAL.finditer(text)])
