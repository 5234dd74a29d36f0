"""Detection of encodings: paragraphs, two words and small CSV files in the code pages of all big scripts."""

import unicodedata
from pathlib import Path

import pytest

from app.ingestion.parsers.sandbox.pool import ParserPool
from app.ingestion.parsers.toolkit.character_decoding import decode_text
from app.warnings import WarningCode
from benchmarks.encoding_texts import SAMPLES, LanguageSample
from benchmarks.encodings import encode_vietnamese, iter_texts

SURE = {"utf-8", "utf-16", "utf-8-sig", "iso2022_jp", "iso2022_kr"}
# Texts of two words in a rare encoding, of which another encoding gives likely words too.
AMBIGUOUS = {
    ("czech", "iso8859-2", "two words"), ("czech", "iso8859-2", "short CSV"), ("french", "cp850", "sentence"),
    ("spanish", "cp850", "paragraph"), ("spanish", "cp850", "three lines of CSV"),
}  # fmt: skip


def encode(text: str, encoding: str) -> bytes:
    return encode_vietnamese(text) if encoding == "cp1258" else unicodedata.normalize("NFC", text).encode(encoding)


@pytest.mark.capability("format-encodings")
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.language)
def test_decode_text_undeclared_encoding_is_detected(sample: LanguageSample) -> None:
    wrong = []
    for encoding in (*sample.encodings, "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"):
        for kind, text in iter_texts(sample):
            decoded = decode_text(encode(text, encoding), encoding=None)
            if unicodedata.normalize("NFC", decoded.text) != unicodedata.normalize("NFC", text):
                wrong.append((sample.language, encoding, kind))
                assert [warning.code for warning in decoded.warnings][:1] == [WarningCode.ENCODING_GUESSED]
    assert set(wrong) <= AMBIGUOUS


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Счёт № 15\nИтого: 1 200 руб.", "cp1251"), ("ПРАЙС-ЛИСТ", "cp1251"), ("Цена;10;шт", "koi8-r"),
        ("Дата,Сумма\n01.02.2024,15\n", "cp866"), ("Здравствуйте! See https://example.org", "cp1251"),
        ("Τιμή,5\nΠοσότητα,7", "cp1253"), ("Ωράριο: 9-17", "iso8859-7"), ("İade süresi 14 gün", "cp1254"),
        ("Şube,Müdür\n1,Işık", "cp1254"), ("מחיר,5\nכמות,7", "cp1255"), ("السعر;5\nالكمية;7", "cp1256"),
        ("قیمت کالا ۵", "utf-8"), ("ราคา,5\nจำนวน,7", "cp874"), ("Kaina;5\nKiekis;7\nPrekė;žalia", "cp1257"),
        ("Cena;5\nZboží;žluté", "cp1250"), ("Größe;5\nMaß;7", "cp1252"), ("Prix : 5 €\nÀ bientôt", "cp1252"),
        ("It’s a “test” – of 5 €", "cp1252"), ("価格,5\n数量,7", "cp932"), ("価格,5\n数量,7", "euc_jp"),
        ("价格,5\n数量,7", "gb18030"), ("價格,5\n數量,7", "big5"), ("가격,5\n수량,7", "cp949"),
        ("Ціна: п'ять гривень", "cp1251"), ("Größe", "mac_roman"), ("naïve café", "cp1252"), ("25 °C ± 2", "cp1252"),
    ],
)  # fmt: skip
def test_decode_text_short_texts_are_detected(text: str, encoding: str) -> None:
    decoded = decode_text(text.encode(encoding), encoding=None)
    assert decoded.text == text
    codes = [warning.code for warning in decoded.warnings]
    assert codes == ([] if encoding in SURE else [WarningCode.ENCODING_GUESSED])


def test_decode_text_guess_names_encoding_and_confidence() -> None:
    warning = decode_text("תנאי האחריות על המוצרים".encode("cp1255"), encoding=None).warnings[0]
    assert warning.message == (
        "The encoding is a guess: windows-1255 (confidence 99 %). Set `encoding` if the text is wrong."
    )


@pytest.mark.parametrize(
    ("data", "declared", "text"),
    [
        ("Grüße".encode(), "us-ascii", "Grüße"),
        ("Привет, мир, как дела".encode("cp1251"), "utf-8", "Привет, мир, как дела"),
        ("“quoted”".encode("cp1252"), "iso-8859-1", "“quoted”"),
        ("①価格".encode("cp932"), "shift_jis", "①価格"),
        ("镕价".encode("gb18030"), "gb2312", "镕价"),
        ("İade".encode("cp1254"), "iso-8859-9", "İade"),
    ],
)
def test_decode_text_declared_encoding_is_trusted_unless_invalid(data: bytes, declared: str, text: str) -> None:
    assert decode_text(data, encoding=None, declared_encoding=declared).text == text


def test_decode_text_damaged_utf8_stays_utf8() -> None:
    decoded = decode_text("Grüße aus Köln, schöne Tage. ".encode() * 20 + b"\xff", encoding=None)
    assert decoded.encoding == "utf-8"
    assert [warning.code for warning in decoded.warnings] == [WarningCode.CHARACTERS_REPLACED]


async def test_pool_confined_process_reads_letter_frequencies(pool: ParserPool, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("номер;имя;цена\n1;Гайка;5\n2;Шайба;7\n".encode("cp1251"))
    document = await pool.parse(path, "text/csv")
    assert "Гайка" in document.blocks[0].text
    assert [warning.code for warning in document.warnings] == [WarningCode.ENCODING_GUESSED]
