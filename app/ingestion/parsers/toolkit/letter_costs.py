"""Costs of characters in a language: how unlikely a text is, in natural units of information.

The costs of letters and of their pairs are from the language profiles of langdetect, which count the Wikipedia.
``python -m scripts.build_letter_frequencies`` builds the table. Standards of character sets rank the signs of Chinese,
Japanese and Korean.
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from app.ingestion.parsers.toolkit.common_characters import CHINESE_SIMPLIFIED, CHINESE_TRADITIONAL, JAPANESE_KANJI

UNKNOWN_LETTER = 13.0
"""Cost of a letter that the language does not have."""

UNSEEN_PAIR = 3.5
"""Cost of a pair that the table does not have, in addition to the cost of its letter."""

SCRIPT_CHANGE = 7.0
"""Cost of a letter of another script that touches an ASCII letter."""

LATIN_LANGUAGES = (
    "vi", "tr", "cs", "hr", "hu", "pl", "ro", "sk", "sl", "sq", "lt", "lv", "et", "da", "de", "en", "es", "fi", "fr",
    "it", "nl", "no", "pt", "sv",
)  # fmt: skip
SIGN_LANGUAGES = ("zh", "zh-tw", "ja", "ko")

_MAX_PAIR = 11.0
_SIGN_AT_LETTER, _LONE_HALF_WIDTH = 4.0, 3.0
_PUNCTUATION = {
    **dict.fromkeys("“”„‚‘’«»–—…€°\u00a0، ؛؟", 5.0),
    **dict.fromkeys("£§©®•·№×±²³½¼¾¿¡™†‡‰´", 6.5),
    **dict.fromkeys("、。「」，．（）：；！？・ー々", 3.5),
    **dict.fromkeys("『』【】《》〈〉～〜\u3000￥％－／＂", 5.5),
    **dict.fromkeys("─│┌┐└┘├┤┬┴┼═║╔╗╚╝╠╣╦╩╬█▓▒░", 8.0),
}
_OTHER_SYMBOL, _REPEATED_SYMBOL, _CONTROL = 10.0, 1.5, 25.0
_CASE_CHANGE, _CAPITAL, _CAPITAL_RUN = 5.0, 1.5, 0.5
_SYMBOL_IN_WORD, _LETTER_AFTER_SYMBOL = 5.0, 3.0
_CLOSING_SYMBOLS = frozenset("”“’»…°®™€–—¢£%،؛؟\u00a0")
"""Symbols that may follow a letter without a space."""

_OPENING_SYMBOLS = frozenset("“„‚‘’«»–—¿¡…\u00a0·´\u00ad\u200c\u200d")
"""Symbols that a letter may follow without a space."""
_FOLDED = {"İ": "i", "ی": "ي", "ى": "ي", "ک": "ك", "ș": "ş", "ț": "ţ", "ς": "σ"}
# The table has one letter for all Vietnamese letters of this block.
_VIETNAMESE_FIRST, _VIETNAMESE_LAST, _VIETNAMESE_CLASS, _VIETNAMESE_COST = "\u1ea0", "\u1ef9", "ể", 3.0

# Read at the import, because a confined parser process may not read the files of the service.
_TABLE_TEXT = Path(__file__).with_name("letter_frequencies.json").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class _Table:
    letters: Mapping[str, float]
    pairs: Mapping[str, float]


def measure_pairs(pairs: Iterable[tuple[str, int]], language: str) -> float:
    """Return the cost of a text in a language. Pairs of ASCII characters cost nothing.

    Args:
        pairs: Pairs of neighbouring characters of the text, with their counts.
        language: Code of the language, as in ``LATIN_LANGUAGES`` or ``SIGN_LANGUAGES``.
    """
    if language in SIGN_LANGUAGES:
        return sum(count * _measure_sign(pair[0], pair[1], language) for pair, count in pairs if not pair.isascii())
    return sum(count * _measure_letter(pair[0], pair[1], language) for pair, count in pairs if not pair.isascii())


def measure_ascii_pairs(pairs: Iterable[tuple[str, int]], language: str) -> float:
    """Return the cost of the ASCII letters of a text in a language of the Latin script."""
    table = _load_tables()[language].pairs
    return sum(
        count * table.get(pair, _MAX_PAIR)
        for pair, count in pairs
        if pair.isascii() and pair.isalpha() and pair.islower()
    )


def _measure_letter(first: str, second: str, language: str) -> float:
    """Return the cost of a character after another one in an alphabetic language."""
    if not _is_letter(second):
        return (
            _measure_symbol(first, second)
            if second > "\x7f"
            else _get_pair_cost(_normalize_letter(first), " ", language)
        )
    cost = _measure_case(first, second)
    folded = _normalize_letter(second)
    before = _normalize_letter(first) if _is_letter(first) else " "
    if _VIETNAMESE_FIRST <= folded <= _VIETNAMESE_LAST:
        folded, cost = _VIETNAMESE_CLASS, cost + _VIETNAMESE_COST
    if (before > "\x7f" > second) or (before != " " and before < "\x7f" < second):
        cost += 0.0 if language in LATIN_LANGUAGES else SCRIPT_CHANGE
    if first > "\x7f" and before == " " and first not in _OPENING_SYMBOLS:
        cost += _LETTER_AFTER_SYMBOL
    return cost + _get_pair_cost(before, folded, language)


def _get_pair_cost(first: str, second: str, language: str) -> float:
    table = _load_tables()[language]
    if _VIETNAMESE_FIRST <= first <= _VIETNAMESE_LAST:
        first = _VIETNAMESE_CLASS
    cost = table.pairs.get(first + second)
    if cost is not None:
        return cost
    if second == " ":
        return UNSEEN_PAIR
    if second < "\x7f" and language not in LATIN_LANGUAGES:
        return 0.0
    letter = table.letters.get(second)
    return UNKNOWN_LETTER if letter is None else min(letter, _MAX_PAIR - UNSEEN_PAIR) + UNSEEN_PAIR


def _measure_symbol(first: str, second: str) -> float:
    if second < "\xa0" or second == "\ufffd" or "\ue000" <= second <= "\uf8ff":
        return _CONTROL
    if first == second:
        return _REPEATED_SYMBOL
    cost = _PUNCTUATION.get(second, _OTHER_SYMBOL)
    return cost + (_SYMBOL_IN_WORD if first.islower() and second not in _CLOSING_SYMBOLS else 0.0)


def _measure_case(first: str, second: str) -> float:
    if not second.isupper():
        return 0.0
    if first.islower():
        return _CASE_CHANGE
    return _CAPITAL_RUN if first.isupper() else _CAPITAL


def _is_letter(character: str) -> bool:
    return character.isalpha() or "\u0300" <= character <= "\u036f" or "\u0e30" <= character <= "\u0e4e"


def _normalize_letter(character: str) -> str:
    folded = character.lower()[0]
    return _FOLDED.get(character) or _FOLDED.get(folded, folded)


def _measure_sign(first: str, second: str, language: str) -> float:
    """Return the cost of a sign of Chinese, Japanese or Korean after another character."""
    touches_letter = (first.isascii() and first.islower()) or (second.isascii() and second.islower())
    cost = _get_sign_cost(second, language) if second > "\x7f" else 0.0
    if "\uff61" <= second <= "\uff9f" and first <= "\x7f":
        cost += _LONE_HALF_WIDTH
    return cost + (_SIGN_AT_LETTER if touches_letter else 0.0)


@cache
def _load_tables() -> Mapping[str, _Table]:
    return {
        language: _Table(_read_groups(table["letters"], 1), _read_groups(table["pairs"], 2))
        for language, table in json.loads(_TABLE_TEXT).items()
    }


def _read_groups(groups: Mapping[str, str], length: int) -> dict[str, float]:
    return {
        group[start : start + length]: int(cost) / 2
        for cost, group in groups.items()
        for start in range(0, len(group), length)
    }


@cache
def _load_sign_ranks(language: str) -> Mapping[str, float]:
    signs = {"zh": CHINESE_SIMPLIFIED, "zh-tw": CHINESE_TRADITIONAL, "ja": JAPANESE_KANJI}[language]
    base = 4.0 if language == "ja" else 3.3
    costs: dict[str, float] = {}
    for rank, sign in enumerate(signs, start=1):
        costs.setdefault(sign, base + 0.62 * math.log(rank))
    return costs


@cache
def _get_sign_cost(sign: str, language: str) -> float:
    if sign in _PUNCTUATION:
        return _PUNCTUATION[sign]
    if not sign.isalnum():
        return _measure_symbol(" ", sign)
    if "\uff01" <= sign <= "\uff5e":
        return 7.0
    if language == "ko":
        return _get_hangul_cost(sign)
    if language == "ja" and "\u3040" <= sign <= "\u30ff":
        return 4.0 if sign < "\u30a0" else 5.0
    if language == "ja" and "\uff66" <= sign <= "\uff9f":
        return 9.0
    if not "\u4e00" <= sign <= "\u9fff":
        return UNKNOWN_LETTER
    return _load_sign_ranks(language).get(sign) or _rank_by_standard(sign, language)


def _get_hangul_cost(sign: str) -> float:
    cost = _load_tables()["ko"].letters.get(sign)
    if cost is not None:
        return cost
    if not "\uac00" <= sign <= "\ud7a3":
        return 12.0 if "\u4e00" <= sign <= "\u9fff" else UNKNOWN_LETTER
    return 10.5 if _encode(sign, "euc_kr") else 14.0


def _rank_by_standard(sign: str, language: str) -> float:
    """Return the cost of a sign by its level in the national standard: the first level has the common signs."""
    standard, last_lead = {"zh": ("gb2312", 0xD7), "zh-tw": ("big5", 0xC6), "ja": ("shift_jis", 0x97)}[language]
    encoded = _encode(sign, standard)
    if not encoded:
        return 15.0
    return 8.5 if encoded[0] <= last_lead else 12.0


def _encode(sign: str, encoding: str) -> bytes:
    try:
        return sign.encode(encoding)
    except UnicodeError:
        return b""
