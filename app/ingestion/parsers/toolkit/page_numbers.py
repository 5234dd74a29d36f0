"""Recognition of lines that only number the pages, for the headers and footers of text documents."""

import re

_PAGE_WORDS = frozenset(
    {
        "page", "pages", "p", "pg", "of", "seite", "seiten", "s", "von", "sur", "página", "pagina", "pág", "pag", "de",
        "di", "strona", "z", "страница", "стр", "из", "第", "页", "页共", "共", "頁", "頁共", "ページ", "i", "ii",
        "iii", "iv", "v", "vi", "vii", "viii", "ix", "x",
    }
)  # fmt: skip
_WORD, _NUMBER, _MAX_DIGITS = re.compile(r"[^\W\d_]+"), re.compile(r"\d+"), 4


def is_page_number(line: str) -> bool:
    """Return whether a line of a header or footer has only page numbers, with words such as page and of."""
    numbers = _NUMBER.findall(line)
    has_short_numbers = len(numbers) <= 2 and all(len(number) <= _MAX_DIGITS for number in numbers)
    return has_short_numbers and all(word in _PAGE_WORDS for word in _WORD.findall(line.lower()))
