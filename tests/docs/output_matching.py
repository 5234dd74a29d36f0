"""Comparison of the output that a page shows with the output of the command.

Ids, keys, times, durations and decimal fractions differ from run to run: both sides are normalized. ``…`` in the shown
text matches any text within the line; a line that is only ``…`` matches any number of lines.
"""

import json
import math
import re
from typing import Any

ELLIPSIS = "…"
_NORMALIZATIONS = (
    (re.compile(r"\b([a-z]{2,12})_[0-9a-hjkmnp-tv-z]{26}\b"), r"\1_ID"),
    (re.compile(r"\bcarrel_(?:[A-Za-z0-9_-]{20,}|…)"), "carrel_KEY"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)?"), "TIME"),
    (re.compile(r"\b\d{4}-\d\d-\d\d\b"), "DATE"),
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "UUID"),
    (re.compile(r"\b\d+(?:\.\d+)? ?(?:ms|s|seconds?)\b"), "DURATION"),
    (re.compile(r"(?<![\w.])\d+\.\d{2,}(?![\w.])"), "FRACTION"),
)
# Scores differ between processors in the last digits.
_TOLERANCE = 0.02


def normalize(text: str) -> str:
    """Return text with placeholders for ids, keys, times, durations and fractions, without spaces at line ends."""
    for pattern, placeholder in _NORMALIZATIONS:
        text = pattern.sub(placeholder, text)
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def is_same_text(shown: str, printed: str) -> bool:
    """Return whether printed text is the shown text."""
    lines = []
    for line in normalize(shown).split("\n"):
        pattern = ".*?".join(re.escape(part) for part in line.split(ELLIPSIS))
        lines.append(r"(?:.*\n)*?" if line.strip() == ELLIPSIS else pattern + r"\n")
    return re.fullmatch("".join(lines), normalize(printed) + "\n") is not None


def find_json_difference(shown: Any, printed: Any, path: str = "$") -> str | None:
    """Return the first difference between shown and printed JSON, or None.

    A shown object may omit members. A shown list that ends in ``"…"`` may omit items. The string ``"…"`` matches any
    value.
    """
    if shown == ELLIPSIS:
        return None
    if isinstance(shown, dict) and isinstance(printed, dict):
        return _find_member_difference(shown, printed, path)
    if isinstance(shown, list) and isinstance(printed, list):
        return _find_item_difference(shown, printed, path)
    return None if _is_same_value(shown, printed, path) else f"{path}: shown {shown!r}, printed {printed!r}"


def _find_member_difference(shown: dict[str, Any], printed: dict[str, Any], path: str) -> str | None:
    for name, value in shown.items():
        if name not in printed:
            return f"{path}.{name} is shown, and not printed"
        if difference := find_json_difference(value, printed[name], f"{path}.{name}"):
            return difference
    return None


def _find_item_difference(shown: list[Any], printed: list[Any], path: str) -> str | None:
    if shown and shown[-1] == ELLIPSIS:
        shown = shown[:-1]
        printed = printed[: len(shown)]
    if len(shown) != len(printed):
        return f"{path}: {len(shown)} items are shown, {len(printed)} printed"
    differences = (
        find_json_difference(one, other, f"{path}[{index}]")
        for index, (one, other) in enumerate(zip(shown, printed, strict=True))
    )
    return next((difference for difference in differences if difference), None)


def _is_same_value(shown: Any, printed: Any, path: str) -> bool:
    if isinstance(shown, str) and isinstance(printed, str):
        return is_same_text(shown, printed)
    if isinstance(shown, bool) or isinstance(printed, bool) or not isinstance(shown, int | float):
        return bool(shown == printed)
    if not isinstance(printed, int | float):
        return False
    is_measurement = path.endswith(("_ms", "_seconds", "_at"))
    return is_measurement or math.isclose(shown, printed, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)


def format_json(printed: str) -> str:
    """Return printed JSON with an indentation of two spaces, ready to be shown."""
    return json.dumps(json.loads(printed), indent=2, ensure_ascii=False)
