"""Character classes of capital letters and of scripts without capitals."""

import sys
import unicodedata

# Blocks with capital letters: Latin, Greek, Cyrillic, Armenian, Cherokee, Glagolitic, Coptic, Deseret and others.
_CASED_BLOCKS = ((0x41, 0x590), (0x1C90, 0x1CC0), (0x1E00, 0x2000), (0x2C00, 0x2D00), (0xA640, 0xA800))
_CASED_BLOCKS_BEYOND = ((0xFF21, 0xFF3B), (0x10400, 0x10500))

UNCASED = (
    "\u0590-\u10ff\u1100-\u13ff\u1700-\u18af\u3041-\u30ff\u3105-\u312f\u3131-\u318e\u3400-\u4dbf\u4e00-\u9fff"
    "\ua980-\uabff\uac00-\ud7a3\uf900-\ufaff\ufb1d-\ufdff\ufe70-\ufefc\uff66-\uff9f\U00020000-\U000323af"
)
"""Letters of scripts without capitals, for a character class."""


CASED_WORD = (
    "0-9_A-Za-z\u00aa\u00b5\u00ba\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u058f\u1c80-\u1cbf\u1e00-\u1fff\u2c00-\u2dff"
    "\ua640-\ua7ff"
)
"""Digits, marks and letters of scripts with capitals, for a character class."""


def list_capital_ranges() -> str:
    """Return all capital and title-case letters, for a character class."""
    codes = [
        code
        for first, end in (*_CASED_BLOCKS, *_CASED_BLOCKS_BEYOND)
        for code in range(first, min(end, sys.maxunicode))
        if unicodedata.category(chr(code)) in {"Lu", "Lt"}
    ]
    ranges: list[list[int]] = []
    for code in codes:
        if ranges and code == ranges[-1][1] + 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)
