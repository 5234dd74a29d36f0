"""Identifiers: names of programs, product codes, error codes, paths and addresses."""

import re
from collections.abc import Iterator

from app.graph.extraction.letters import CASED_WORD as _W

MAX_IDENTIFIER_CHARACTERS = 120
"""Maximum length of an identifier. Longer tokens are data."""

_TOKEN = rf"{_W}\-‐‑./\\:@~#"
# A token has an underscore, a digit, a capital behind a small letter, a slash, a backslash or an @.
# The pattern begins with a character class, because the search then skips other characters fast.
_SIGN = re.compile(r"[0-9_/\\@.A-ZÀ-Þ](?:(?<=[0-9_/\\@])|(?<=[a-zß-ÿ][A-ZÀ-Þ])|(?<=\w\.)(?=[a-zA-Z]))")
_NO_TOKEN = re.compile(f"[^{_TOKEN}]")
_TOKEN_END = re.compile(f"[{_TOKEN}]*+")
_ENDS = ".,:;-–/\\~#‐‑"
_URL = re.compile(r"[a-z][a-z0-9+.\-]{1,15}://", re.IGNORECASE)
_URL_END = re.compile(r"[^\s<>\"'”»“|]*+")
_LINE_NUMBER = re.compile(r"(?::\d+){1,2}\Z")
_EMAIL = re.compile(r"[\w.+\-]{1,64}@[\w\-]{1,63}(?:\.[\w\-]{1,63}){1,8}")
_PATH = re.compile(r"(?:[A-Za-z]:\\|~?/|\.{1,2}/|[\w.\-]+/[\w.\-]+/|[\w\-]+\\[\w.\-]+\\)[\w.\-/\\~@:]*")
_FILE = re.compile(
    r"[\w.\-/]*[\w\-]\.(?:py|js|ts|tsx|jsx|json|ya?ml|toml|ini|cfg|conf|md|rst|txt|csv|tsv|xml|html?|css|sql|sh|bat|ps1|exe"
    r"|dll|so|jar|java|kt|go|rs|rb|php|c|h|cc|cpp|hpp|cs|swift|pdf|docx?|xlsx?|pptx?|log|env|lock|zip|gz|tar|png|jpe?g"
    r"|svg|gif|ipynb|proto|tf|service)",
    re.IGNORECASE,
)
# Quantities, ordinals, decades and times: 10km, 3rd, 1990s, 5pm, 12V.
_QUANTITY = re.compile(
    r"\d[\d.\-/]*(?:[a-zµ°]{1,4}|[a-z]?(?:AM|PM|BC|AD|CE|BCE|[KMGTP]i?[Bb]|[kKMGT]?(?:W|Hz|V|J|Pa|N|A)h?|dB|[CFK]|x|X))"
    r"(?:/[a-z]{1,3})?"
)
# Words with a prefix or a suffix of time or order: mid-1990s, 20th-century, pre-2008, 3-day.
_ORDINAL = re.compile(r"[a-z]+-\d+(?:st|nd|rd|th|s)?|\d+(?:st|nd|rd|th)?-[a-z]+", re.IGNORECASE)
_CODE_PREFIX = re.compile(r"(?:utf|sha|covid|gpt|iso|rfc|md|aes|base|llama|python)-\d+", re.IGNORECASE)
_DATE = re.compile(r"\d{1,4}[\-./](?:\d{1,2}|[A-Za-z]{3,9})[\-./]\d{1,4}(?:T[\d:.]+Z?)?")
_CAMEL = re.compile(r"[a-zß-ÿ][\w]*[A-ZÀ-Þ]\w*")


def find_identifiers(text: str) -> Iterator[tuple[str, int]]:
    """Yield the identifiers of a text with their offsets, in linear time.

    Identifiers are tokens with an underscore ("max_size"), with letters and digits ("v90", "F-16", "E-4711") or with a
    capital inside ("iHeartMedia"). Paths, names of files, addresses of mail, and web addresses without their query are
    identifiers too. Quantities, ordinals, times, dates and plain numbers are none.

    Args:
        text: Text of a chunk.
    """
    end = 0
    for match in _SIGN.finditer(text):
        if match.start() < end:
            continue
        head = text[max(end, match.start() - MAX_IDENTIFIER_CHARACTERS) : match.start()]
        start = match.start() - len(_NO_TOKEN.split(head)[-1])
        tail = _TOKEN_END.match(text, match.start())
        end = tail.end() if tail else match.end()
        if _URL.match(text, start, end):
            end += len(_URL_END.findall(text, end)[0])
        if end - start > MAX_IDENTIFIER_CHARACTERS:
            continue
        token = text[start:end].lstrip(".,:;-–\\#").rstrip(_ENDS)
        if len(token) > 1 and (name := _read_token(token)):
            yield name, start


def _read_token(token: str) -> str | None:
    """Return the identifier in a token, or None."""
    if _URL.match(token):
        address = token.partition("?")[0].partition("#")[0].rstrip("/'")
        return address if "(" in address else address.partition(")")[0]
    if "@" in token or "/" in token or "\\" in token:
        token = _LINE_NUMBER.sub("", token)
        if _EMAIL.fullmatch(token) or _FILE.fullmatch(token) or (_PATH.fullmatch(token) and _has_letters(token)):
            return token
        return None
    return token if _is_code(token) else None


def _has_letters(token: str) -> bool:
    return any(len(part) > 1 and not part.isdigit() for part in re.split(r"[/\\]", token))


def _is_code(token: str) -> bool:
    """Return whether a token without slashes is an identifier."""
    if not any(map(str.isalpha, token)) or ":" in token:
        return False
    if "_" in token:
        return True
    if any(map(str.isdigit, token)):
        if _QUANTITY.fullmatch(token) or _DATE.fullmatch(token):
            return False
        return _CODE_PREFIX.fullmatch(token) is not None or _ORDINAL.fullmatch(token) is None or _has_capitals(token)
    return _FILE.fullmatch(token) is not None or ("-" not in token and _CAMEL.fullmatch(token) is not None)


def _has_capitals(token: str) -> bool:
    """Return whether the letters next to a hyphen and digits are capitals, as in F-16."""
    letters = [part for part in re.split(r"[-‐‑.]", token) if not part.isdigit()]
    return bool(letters) and all(part.isupper() or any(map(str.isdigit, part)) for part in letters)
