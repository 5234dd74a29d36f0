"""The tokenizer of multilingual-e5-small compared with the library's unigram model and the stored map of characters."""

import json
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tokenizers import Tokenizer

from app.inference.embedding.e5_file import PieceVocabulary
from app.inference.embedding.e5_tokenizer import (
    MAX_CACHED_WORDS,
    MAX_PART_CHARACTERS,
    MAX_WORD_CHARACTERS,
    E5Tokenizer,
    normalize,
)
from tests.inference.embedding.e5_reference import StoredE5File, build_library_tokenizer

if TYPE_CHECKING:
    from app.inference.embedding.e5_model import E5Model

RECORDED = json.loads((Path(__file__).parent / "e5_vectors.json").read_text())
TEXTS = [
    *(entry["text"] for entry in RECORDED),
    "",
    " ",
    "  \t\n ",
    "a",
    "trailing space ",
    "line\n\nbreaks\r\nand\ttabs\x0b\x0cend",
    "decomposed e\u0301 u\u0308 o\u0302\u0323 and Hangul \u1112\u1161\u11ab",
    "नमस्ते दुनिया, ক্ষমা করবেন, வணக்கம், ನಮಸ್ಕಾರ, നമസ്കാരം, ជំរាបសួរ, မင်္ဂလာပါ, ສະບາຍດີ",
    "ქართული ენა, հայերեն, አማርኛ, Ελληνικά, Монгол хэл, ᠮᠣᠩᠭᠣᠯ",
    "ญี่ปุ่นน้ำใจ กำลัง ทำงาน",
    "الْعَرَبِيَّةُ ﷺ ﻻ ـــ",
    "neighbours \U00013000\U00013001\U00013002 that are unknown",
    "混合中文 with English単語とカタカナㄅㄆㄇ，１２３",
    "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft",
    "https://example.org/a/very-long_path?query=1&other=%20#fragment",
    "x = [i**2 for i in range(10) if i % 2 == 0]  # squares",
    "\u2581already\u2581marked\u2581 words",
    "zero\u200bwidth\u200djoiner\ufeffmark\ufffd",
    "\x00nul and \x01control\x7fs\x9f",
    "\ufdd0\ufffe noncharacters",
    "x" * 5000,
    "한국어띄어쓰기없이쓰면어떻게될까요" * 30,
    "ab" * 3000 + " " + "字" * 3000,
    "🏳️‍🌈👨🏽‍🚀🤷🏿‍♀️ z\u0335\u0321\u031b\u0358a\u0322lgo",
]


@pytest.fixture(scope="session")
def tokenizer(e5: "E5Model") -> E5Tokenizer:
    return e5.tokenizer


@pytest.fixture(scope="session")
def library(e5_stored: StoredE5File) -> Tokenizer:
    return build_library_tokenizer(e5_stored)


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: ascii(text[:24]))
def test_encode_equals_library(tokenizer: E5Tokenizer, library: Tokenizer, text: str) -> None:
    expected = library.encode(text).ids
    assert tokenizer.encode(text, sys.maxsize) == expected
    assert tokenizer.count_tokens([text]) == [len(expected) - 2]


def test_encode_random_characters_equals_library(tokenizer: E5Tokenizer, library: Tokenizer) -> None:
    generator = random.Random(4)
    blocks = [(0x20, 0x17F), (0x300, 0x52F), (0x600, 0x6FF), (0x900, 0xE7F), (0x3040, 0x30FF), (0x4E00, 0x9FFF)]
    blocks += [(0xAC00, 0xD7A3), (0xFF01, 0xFFEE), (0x1F300, 0x1F6FF), (0x2000, 0x2BFF)]
    for _ in range(400):
        chosen = generator.sample(blocks, 2)
        text = "".join(chr(generator.randint(*generator.choice(chosen))) for _ in range(generator.randint(1, 60)))
        assert tokenizer.encode(text, sys.maxsize) == library.encode(text).ids, ascii(text)


def test_encode_joined_pieces_equals_library(
    tokenizer: E5Tokenizer, library: Tokenizer, e5_stored: StoredE5File
) -> None:
    """Words of random pieces have many competing ways to be cut."""
    generator = random.Random(5)
    pieces = [piece.lstrip("\u2581") for piece, _ in e5_stored.pieces[4:-1]]
    for _ in range(400):
        text = " ".join("".join(generator.choices(pieces, k=generator.randint(1, 4))) for _ in range(5))
        assert tokenizer.encode(text, sys.maxsize) == library.encode(text).ids, ascii(text)


@pytest.mark.parametrize("entry", RECORDED, ids=lambda entry: entry["name"])
def test_count_tokens_recorded_text_equals_other_implementation(tokenizer: E5Tokenizer, entry: dict[str, str]) -> None:
    assert tokenizer.count_tokens([entry["text"]]) == [int(entry["tokens"]) - 2]


def test_normalize_every_character_equals_stored_map(e5_stored: StoredE5File) -> None:
    """The characters that differ have got a compatibility form in Unicode since the model was trained."""
    newer = {0x32FF, 0xFDD0, 0xFDD1, *range(0xA7F1, 0xA7F5), 0xAB69, 0x1F16C, 0x1F23B}
    newer |= {*range(0x10780, 0x107BB), *range(0x1CCD6, 0x1CCFA), *range(0x1FBF0, 0x1FBFA)}
    for code in range(sys.maxunicode + 1):
        character = chr(code)
        if not 0xD800 <= code < 0xE000 and code not in newer:
            assert normalize(character) == e5_stored.characters.get(character, character), hex(code)


def test_normalize_run_of_symbols_is_unchanged() -> None:
    symbols = "─═•★☆♪♫→←↑↓" * 10
    assert normalize(symbols) == symbols
    assert normalize(f"a{'́' * 40}b") == f"á{'́' * 39}b"


def test_normalize_decomposed_text_equals_composed_text() -> None:
    assert normalize("e\u0301 \u1112\u1161\u11ab か\u3099") == "é 한 が"


@pytest.mark.parametrize("token", ["<s>", "</s>", "<pad>", "<unk>", "<mask>"])
def test_encode_name_of_special_token_is_ordinary_text(tokenizer: E5Tokenizer, token: str) -> None:
    begin, *ids, end = tokenizer.encode(f"text {token} text", 512)
    assert (begin, end) == (0, 2)
    assert not {0, 1, 2, 250_001} & set(ids)


@pytest.mark.parametrize("limit", [2, 3, 10, 512])
def test_encode_long_text_is_cut_and_ends_with_special_token(tokenizer: E5Tokenizer, limit: int) -> None:
    text = "The carrel is a small desk set apart in a library. " * 60
    whole = tokenizer.encode(text, sys.maxsize)
    assert tokenizer.encode(text, limit) == [*whole[: limit - 1], 2]


def test_encode_text_of_exact_length_is_not_cut(tokenizer: E5Tokenizer) -> None:
    ids = tokenizer.encode("word " * 509 + "word", 512)
    assert len(ids) == 512
    assert len(set(ids[1:-1])) == 1
    assert tokenizer.encode("word " * 600, 512) == ids


@pytest.mark.parametrize("text", ["\udc00", "half a \ud83e pair", "\ud83e" * 1000, "a\udfffb"], ids=ascii)
def test_encode_lone_surrogate_is_unknown(tokenizer: E5Tokenizer, text: str) -> None:
    assert 3 in tokenizer.encode(text, 512)


@pytest.mark.parametrize("character", ["x", "字", "ก", "\U00013000", "\u0301", "\u200b", "\ufdfa", "\u2581"], ids=ascii)
def test_count_tokens_long_word_is_counted(tokenizer: E5Tokenizer, character: str) -> None:
    (count,) = tokenizer.count_tokens([character * (2 * MAX_PART_CHARACTERS)])
    assert 0 < count < 10 * MAX_PART_CHARACTERS


def test_encode_megabyte_word_reads_only_its_begin(tokenizer: E5Tokenizer) -> None:
    word = "字庫" * 500_000
    assert tokenizer.encode(word, 512) == tokenizer.encode(word[:20_000], 512)


@pytest.mark.parametrize("text", ["word and more, ", "no-space!\n", "中文字 ", "[SEP]\r\n", "a  b \t c"], ids=ascii)
def test_count_tokens_long_text_equals_sum_of_lines(tokenizer: E5Tokenizer, text: str) -> None:
    """A text is normalised in parts, and the parts begin and end between words."""
    repeats = 2 * MAX_PART_CHARACTERS // len(text) + 7
    (once, twice, many) = tokenizer.count_tokens([text + "end", text * 2 + "end", text * repeats + "end"])
    assert many == once + (repeats - 1) * (twice - once)


def test_encode_more_words_than_cache_holds_returns_same_ids(tokenizer: E5Tokenizer) -> None:
    first = tokenizer.encode("how the cache is emptied", 512)
    for start in range(0, 2 * MAX_CACHED_WORDS, 1000):
        tokenizer.count_tokens([" ".join(f"w{number}" for number in range(start, start + 1000))])
    assert len(tokenizer._cache) <= MAX_CACHED_WORDS
    assert tokenizer.encode("how the cache is emptied", 512) == first


def test_find_best_pieces_prefers_highest_total_score() -> None:
    pieces = ["<s>", "<pad>", "</s>", "<unk>", "\u2581", "a", "b", "ab", "\u2581ab", "<mask>"]
    scores = [0.0, 0.0, 0.0, 0.0, -1.0, -1.0, -1.0, -1.5, -2.6, 0.0]
    tokenizer = E5Tokenizer(PieceVocabulary(pieces, scores))
    assert tokenizer.encode("ab", 10) == [0, 4, 7, 2]
    assert tokenizer.encode("ba", 10) == [0, 4, 6, 5, 2]
    assert tokenizer.encode("ac\U0001f9edb", 10) == [0, 4, 5, 3, 6, 2]
    assert tokenizer.encode("c" * (3 * MAX_WORD_CHARACTERS), 10) == [0, 4, 3, 3, 3, 3, 2]
