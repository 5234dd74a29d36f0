"""Estimates of tokens for chat models whose tokenizer is unknown."""

import string
from collections.abc import Collection

from app.enrichment.reply import build_shape_instruction

TOKENS_PER_LETTER = 0.19
"""Average number of tokens of an ASCII letter or a space in prose."""

TOKENS_PER_DIGIT = 0.47
"""Average number of tokens of an ASCII digit."""

TOKENS_PER_SIGN = 0.9
"""Average number of tokens of an ASCII sign, such as the bars of a table and the quotes of JSON."""

TOKENS_PER_CHARACTER = 0.66
"""Average number of tokens of a character that is not ASCII."""

MAX_TOKENS_PER_LETTER, MAX_TOKENS_PER_DIGIT, MAX_TOKENS_PER_SIGN, MAX_TOKENS_PER_CHARACTER = 0.4, 1.0, 1.2, 1.5
"""Numbers of tokens that texts of a known tokenizer hardly exceed."""

_DIGITS = str.maketrans("", "", "0123456789")
_LETTERS = str.maketrans("", "", string.ascii_letters + string.whitespace)

SUMMARY_TOKENS = 90
OUTPUT_TOKENS = {"summaries": SUMMARY_TOKENS, "keywords": 40, "entities": 110, "relations": 120, "context_lines": 0}
"""Expected tokens of each part of a reply, with its JSON."""

MAX_OUTPUT_TOKENS = {"summaries": 300, "keywords": 150, "entities": 800, "relations": 1250, "context_lines": 50}
"""Maximum tokens of each part of a reply. They are reserved before a call."""

LINE_TOKENS = 40
"""Expected tokens of a context line, with its JSON."""

MAX_LINE_TOKENS = 110
"""Maximum tokens of a context line, with its JSON."""

FULL_TEXT_TOKENS = 250
"""Number of tokens of a text from which a reply has its expected length. Replies about shorter texts are shorter."""


def estimate_tokens(text: str) -> int:
    """Return the expected number of tokens of a text."""
    letters, digits, signs, others = count_characters(text)
    tokens = TOKENS_PER_LETTER * letters + TOKENS_PER_DIGIT * digits + TOKENS_PER_SIGN * signs
    return round(tokens + TOKENS_PER_CHARACTER * others)


def limit_tokens(text: str) -> int:
    """Return a number of tokens that a text hardly exceeds, for reservations."""
    letters, digits, signs, others = count_characters(text)
    tokens = MAX_TOKENS_PER_LETTER * letters + MAX_TOKENS_PER_DIGIT * digits + MAX_TOKENS_PER_SIGN * signs
    return round(tokens + MAX_TOKENS_PER_CHARACTER * others)


def count_characters(text: str) -> tuple[int, int, int, int]:
    """Return the numbers of ASCII letters and spaces, of ASCII digits, of ASCII signs, and of other characters."""
    without_letters = text.translate(_LETTERS)
    signs = without_letters.translate(_DIGITS)
    others = 0 if signs.isascii() else sum(not character.isascii() for character in signs)
    digits = len(without_letters) - len(signs)
    return len(text) - len(without_letters), digits, len(signs) - others, others


def estimate_task(task: str, parts: Collection[str]) -> int:
    """Return the expected number of tokens of an instruction, with the shape of the reply that is sent after it."""
    return estimate_tokens(task + build_shape_instruction(tuple(parts)))


def estimate_output(parts: Collection[str], text_tokens: int, lines: int = 0) -> int:
    """Return the expected number of tokens of a reply about a text.

    Args:
        parts: Wanted parts.
        text_tokens: Tokens of the text with the summaries of the sections below.
        lines: Number of wanted context lines.
    """
    share = min(1.0, 0.3 + 0.7 * text_tokens / FULL_TEXT_TOKENS)
    return round(share * sum(OUTPUT_TOKENS[part] for part in parts)) + LINE_TOKENS * lines


def limit_output(parts: Collection[str], lines: int = 0) -> int:
    """Return the maximum number of tokens of a reply with a number of context lines."""
    return 100 + sum(MAX_OUTPUT_TOKENS[part] for part in parts) + MAX_LINE_TOKENS * lines


def estimate_call(prompt: tuple[str, str], parts: Collection[str], lines: int = 0) -> int:
    """Return the expected number of tokens of a call.

    Args:
        prompt: Instruction and material of the call.
        parts: Wanted parts.
        lines: Number of wanted context lines.
    """
    material = estimate_tokens(prompt[1])
    return estimate_task(prompt[0], parts) + material + estimate_output(parts, material, lines)


def limit_call(prompt: tuple[str, str], parts: Collection[str], lines: int = 0) -> int:
    """Return the number of tokens that is reserved for a call.

    Args:
        prompt: Instruction and material of the call.
        parts: Wanted parts.
        lines: Number of wanted context lines.
    """
    texts = (*prompt, build_shape_instruction(tuple(parts)))
    return sum(map(limit_tokens, texts)) + limit_output(parts, lines)
