"""Estimates of tokens for chat models whose tokenizer is unknown."""

from collections.abc import Collection

CHARACTERS_PER_TOKEN = 4.2
"""Average number of ASCII characters of a token in prose, with the space before each word."""

TOKENS_PER_CHARACTER = 0.6
"""Average number of tokens of a character that is not ASCII."""

MIN_CHARACTERS_PER_TOKEN = 2.0
"""Number of ASCII characters of a token in the worst usual case, such as tables of numbers."""

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
    others = count_other_characters(text)
    return round((len(text) - others) / CHARACTERS_PER_TOKEN + others * TOKENS_PER_CHARACTER)


def limit_tokens(text: str) -> int:
    """Return a number of tokens that a text hardly exceeds, for reservations."""
    others = count_other_characters(text)
    return round((len(text) - others) / MIN_CHARACTERS_PER_TOKEN + others * 1.5)


def count_other_characters(text: str) -> int:
    """Return the number of characters that are not ASCII."""
    return 0 if text.isascii() else sum(not character.isascii() for character in text)


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
    task, material = map(estimate_tokens, prompt)
    return task + material + estimate_output(parts, material, lines)


def limit_call(prompt: tuple[str, str], parts: Collection[str], lines: int = 0) -> int:
    """Return the number of tokens that is reserved for a call.

    Args:
        prompt: Instruction and material of the call.
        parts: Wanted parts.
        lines: Number of wanted context lines.
    """
    return sum(map(limit_tokens, prompt)) + limit_output(parts, lines)
