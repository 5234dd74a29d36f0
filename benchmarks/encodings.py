"""``make bench NAME=encodings``: measure the share of texts that are decoded right, by language and by kind of text.

Each sample of ``encoding_texts`` is written in its encodings, and in UTF-16 and UTF-32 without a byte order mark.
Its texts are a paragraph, a sentence, two words, a CSV of three lines, and a CSV of some 33 bytes.
"""

import sys
import time
import unicodedata
from collections import Counter
from collections.abc import Iterator

from app.ingestion.parsers.toolkit.character_decoding import decode_text
from app.warnings import WarningCode
from benchmarks.encoding_texts import SAMPLES, LanguageSample

WIDE_ENCODINGS = ("utf-16-le", "utf-16-be", "utf-32-le")


def main() -> None:
    """Print the table of results, the wrong results, and the time of one call."""
    right: Counter[str] = Counter()
    silent: Counter[str] = Counter()
    total: Counter[str] = Counter()
    started = time.perf_counter()
    for sample in SAMPLES:
        for encoding in (*sample.encodings, *WIDE_ENCODINGS):
            for kind, text in iter_texts(sample):
                _count_result(sample.language, encoding, kind, text, (right, silent, total))
    elapsed = time.perf_counter() - started
    for name in total:
        print(f"{name:22} {right[name]:4} of {total[name]:4} right, {silent[name]:3} wrong without a warning")
    print(f"{1000 * elapsed / total['all']:.1f} ms a text")


def iter_texts(sample: LanguageSample) -> Iterator[tuple[str, str]]:
    """Yield the kinds of texts of a sample with their texts."""
    first, second, third = sample.words
    yield "paragraph", sample.paragraph
    sentence = sample.paragraph.replace("。", "。\n").split("\n")[0] if "。" in sample.paragraph else sample.paragraph
    yield "sentence", sentence.split(". ")[0]
    yield "two words", f"{first} {third}"
    yield "three lines of CSV", f"id;name;price;city\n1;{first};12.50;{third}\n2;{second};3.75;{third}\n"
    yield "short CSV", f"id,name,price\n1,{first},2.50\n2,{third},1\n"


def _count_result(language: str, encoding: str, kind: str, text: str, counters: tuple[Counter[str], ...]) -> None:
    right, silent, total = counters
    data = unicodedata.normalize("NFC", text).encode(encoding) if encoding != "cp1258" else encode_vietnamese(text)
    if data.isascii() and encoding.startswith("cp"):
        return
    decoded = decode_text(data, encoding=None)
    is_right = unicodedata.normalize("NFC", decoded.text) == unicodedata.normalize("NFC", text)
    is_silent = not any(warning.code == WarningCode.ENCODING_GUESSED for warning in decoded.warnings)
    for name in (kind, language, "all"):
        total[name] += 1
        right[name] += is_right
        silent[name] += not is_right and is_silent
    if not is_right:
        sys.stderr.write(f"{language}, {encoding}, {kind}: {decoded.encoding}: {decoded.text[:60]!r}\n")


def encode_vietnamese(text: str) -> bytes:
    """Return a text in windows-1258: letters with their hats, and tones as combining characters."""
    parts = []
    for character in unicodedata.normalize("NFC", text):
        try:
            parts.append(character.encode("cp1258"))
        except UnicodeError:
            decomposed = unicodedata.normalize("NFD", character)
            base, marks = decomposed[0], decomposed[1:]
            tones = [mark for mark in marks if mark in "\u0300\u0301\u0303\u0309\u0323"]
            hatted = unicodedata.normalize("NFC", base + "".join(mark for mark in marks if mark not in tones))
            parts.append((hatted + "".join(tones)).encode("cp1258"))
    return b"".join(parts)


if __name__ == "__main__":
    main()
