"""Offsets into the stored text: code points as they are stored, or UTF-16 units as browsers count them."""

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

# Characters outside the Basic Multilingual Plane: one code point, two UTF-16 units.
_ASTRAL = re.compile("[\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class OffsetConverter:
    """How a caller counts.

    Without ``astral_positions``, the ascending places of characters that count twice, as it is stored.
    """

    astral_positions: Sequence[int] = ()

    def __call__(self, offset: int) -> int:
        """The place of the code point ``offset``, as the caller counts."""
        return offset + bisect_left(self.astral_positions, offset)


def create_utf16_converter(text: str) -> OffsetConverter:
    """For offsets into ``text``, or into any longer text that begins with it as far as it goes."""
    return OffsetConverter([match.start() for match in _ASTRAL.finditer(text)])
