"""Estimate the tokens of a text with an unknown tokenizer from its bytes, and divide texts into batches."""

from collections.abc import Iterator, Sequence

ASCII_OR_TWO_BYTES = bytes(range(0xE0))


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text upwards: one token for three bytes, or for two bytes of characters above U+07FF.

    In common tokenizers, a token of English has four to five bytes, and one of other alphabets three to five. A token
    of Chinese, Japanese and Korean has two to three bytes, an emoji one to two. The estimate is too low for random
    characters; the endpoint may refuse such a text.
    """
    if text.isascii():
        return -(-len(text) // 3)
    encoded = text.encode("utf-8", "replace")
    leads = encoded.translate(None, ASCII_OR_TWO_BYTES)  # first bytes of the characters with three or four bytes
    four = sum(lead >= 0xF0 for lead in leads)
    wide = 3 * len(leads) + four
    return -(-(2 * (len(encoded) - wide) + 3 * wide) // 6)


def split_batches(counts: Sequence[int], *, max_tokens: int) -> Iterator[tuple[int, int]]:
    """Yield spans of texts with at most ``max_tokens`` tokens together.

    Args:
        counts: Number of tokens of each text.
        max_tokens: Maximum number of tokens of a span; a longer text is a span by itself.
    """
    start = total = 0
    for position, tokens in enumerate(counts):
        if position > start and total + tokens > max_tokens:
            yield start, position
            start, total = position, 0
        total += tokens
    if counts:
        yield start, len(counts)
