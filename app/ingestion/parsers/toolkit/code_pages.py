"""Code pages of Windows by number, for RTF files, their fonts, and Outlook messages."""

import codecs

WESTERN = "cp1252"
SYMBOL = "symbol"
"""Name for the code pages of symbol fonts, which have no letters."""

DEFAULT_CHARSETS = (0, 1)
"""Character sets of fonts that use the code page of the whole file."""

_CODECS = {
    708: "iso8859-6", 709: "iso8859-6", 720: "cp720", 932: "cp932", 936: "gb18030", 949: "cp949", 950: "cp950",
    1361: "johab", 10000: "mac-roman", 10001: "cp932", 10004: "mac-arabic", 10006: "mac-greek", 10007: "mac-cyrillic",
    10029: "mac-latin2", 10081: "mac-turkish", 20866: "koi8-r", 21866: "koi8-u", 54936: "gb18030", 65001: "utf-8",
}  # fmt: skip
_FIRST_ISO, _LAST_ISO = 28591, 28606
_CHARSET_CODECS = {
    2: SYMBOL, 77: "mac-roman", 78: "cp932", 128: "cp932", 129: "cp949", 130: "johab", 134: "gb18030", 136: "cp950",
    161: "cp1253", 162: "cp1254", 163: "cp1258", 177: "cp1255", 178: "cp1256", 186: "cp1257", 204: "cp1251",
    222: "cp874", 238: "cp1250", 254: "cp437", 255: "cp850",
}  # fmt: skip
CHARACTER_SET_WORDS = {"ansi": WESTERN, "mac": "mac-roman", "pc": "cp437", "pca": "cp850"}
"""Code pages of the control words that name the character set of the file."""


def find_codec(code_page: int | None) -> str:
    """Return Python's name of a code page of Windows; ``cp1252`` if the number is unknown."""
    if code_page is None:
        return WESTERN
    if _FIRST_ISO <= code_page <= _LAST_ISO:
        name = f"iso8859-{code_page - _FIRST_ISO + 1}"
    else:
        name = _CODECS.get(code_page, f"cp{code_page}")
    try:
        codecs.lookup(name)
    except LookupError:
        return WESTERN
    return name


def find_charset_codec(charset: int | None, default: str) -> str:
    """Return the code page of a font.

    Args:
        charset: Number of the character set as the font table has it; None if it has none.
        default: Code page of the file.
    """
    if charset is None or charset in DEFAULT_CHARSETS:
        return default
    return _CHARSET_CODECS.get(charset, default)


def decode_bytes(data: bytes, codec: str) -> str:
    """Decode bytes of a file. Windows programs take undefined bytes of a code page as control characters."""
    try:
        return data.decode(codec)
    except UnicodeError:
        return data.decode(codec, "replace")
