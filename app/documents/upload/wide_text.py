"""Recognition of text in UTF-16 and UTF-32 without a byte order mark, in any script."""

SAMPLE_BYTES = 8192
MIN_TEXT_SHARE = 0.97
MIN_CHARACTERS = 2
_CONTROL_CHARACTERS = frozenset(map(chr, (*range(9), *range(14, 26), *range(28, 32), *range(127, 160))))
# First and last characters of the blocks of the scripts that are common in texts.
_BLOCKS = (
    ("\t", "\u017f"), ("\u0192", "\u0192"), ("\u01a0", "\u01b0"), ("\u0218", "\u021b"), ("\u02c6", "\u02dd"),
    ("\u0300", "\u052f"), ("\u0590", "\u06ff"), ("\u0900", "\u0e7f"), ("\u1e00", "\u1fff"), ("\u2010", "\u2044"),
    ("\u20a0", "\u20bf"), ("\u2100", "\u22ff"), ("\u2460", "\u24ff"), ("\u2500", "\u266f"), ("\u3000", "\u30ff"),
    ("\u4e00", "\u9fff"), ("\uac00", "\ud7a3"), ("\ufe30", "\ufe4f"), ("\uff01", "\uffee"),
    ("\U0001f300", "\U0001faff"), ("\U00020000", "\U0002ffff"),
)  # fmt: skip


def list_wide_encodings(data: bytes) -> list[str]:
    """Return the encodings of two or four bytes a character in which the bytes are text, as far as the sample shows.

    Latin text in UTF-16 has a NUL in every second byte, and only one encoding fits. For other scripts, two may fit.

    Args:
        data: Bytes at the start of the text, without a byte order mark.
    """
    sample = data[:SAMPLE_BYTES]
    encodings = ("utf-32-le", "utf-32-be") if sample.count(0) * 5 >= 2 * len(sample) else ()
    return [name for name in (*encodings, "utf-16-le", "utf-16-be") if _is_text(sample, name)]


def has_control_bytes(data: bytes) -> bool:
    """Return whether more than a twentieth of the bytes are control characters, as in UTF-16 of many scripts."""
    sample = data[:SAMPLE_BYTES]
    remaining = sample.translate(None, "".join(sorted(_CONTROL_CHARACTERS)).encode("latin-1")[:27])
    return len(sample) - len(remaining) > 0.05 * len(sample)


def _is_text(sample: bytes, encoding: str) -> bool:
    width = 4 if "32" in encoding else 2
    text = sample[: len(sample) - len(sample) % width].decode(encoding, "replace")
    if len(text) > 1 and text.endswith("\ufffd"):  # half of a pair at the end of the sample
        text = text[:-1]
    if len(text) < MIN_CHARACTERS or (width == 4 and len(sample) < 4 * MIN_CHARACTERS):
        return False
    common = sum(_is_common(character) * text.count(character) for character in set(text))
    return common >= MIN_TEXT_SHARE * len(text)


def _is_common(character: str) -> bool:
    return character not in _CONTROL_CHARACTERS and any(first <= character <= last for first, last in _BLOCKS)
