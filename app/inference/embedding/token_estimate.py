"""Tokens of a text whose tokenizer is not known, estimated upwards from its bytes, and batches cut by them."""

from collections.abc import Iterator, Sequence

ASCII_OR_TWO_BYTES = bytes(range(0xE0))


def estimate_tokens(text: str) -> int:
    """Estimate one token for three bytes, and for two bytes above U+07FF.

    English runs at four to five bytes a token in every common tokenizer, other alphabets at three to five, Chinese,
    Japanese and Korean at two to three, emoji at one to two. Counting bytes keeps the order right for all of them
    without the tokenizer of a model that is not known; a text for which it is still too low (random characters) is
    one that the endpoint may refuse.
    """
    if text.isascii():
        return -(-len(text) // 3)
    encoded = text.encode("utf-8", "replace")
    leads = encoded.translate(None, ASCII_OR_TWO_BYTES)  # the first bytes of what takes three or four
    four = sum(lead >= 0xF0 for lead in leads)
    wide = 3 * len(leads) + four
    return -(-(2 * (len(encoded) - wide) + 3 * wide) // 6)


def split_batches(counts: Sequence[int], *, max_tokens: int) -> Iterator[tuple[int, int]]:
    """Yield spans of at most ``max_tokens``, or of one text; ``counts`` are the tokens of the texts."""
    start = total = 0
    for position, tokens in enumerate(counts):
        if position > start and total + tokens > max_tokens:
            yield start, position
            start, total = position, 0
        total += tokens
    if counts:
        yield start, len(counts)
