"""The download header: every name gives one safe line, and parsers of both forms find a name in it."""

from urllib.parse import unquote

import pytest

from app.object_store.content_disposition import format_content_disposition, sanitize_media_type


@pytest.mark.parametrize(
    ("filename", "plain", "extended"),
    [
        ("report.pdf", "report.pdf", "report.pdf"),
        ('say "hi".pdf', "say _hi_.pdf", 'say "hi".pdf'),
        ("a\r\nX-Evil: 1", "a__X-Evil_ 1", "a__X-Evil: 1"),
        ("../../etc/passwd", "_.._etc_passwd", "_.._etc_passwd"),
        ("C:\\dir\\x.doc", "C__dir_x.doc", "C:_dir_x.doc"),
        ("Übergröße.pdf", "_bergr__e.pdf", "Übergröße.pdf"),
        ("日本語.txt", "___.txt", "日本語.txt"),
        ("50%41.txt", "50_41.txt", "50%41.txt"),
        ("a\u2028b\x00c\udc80", "a_b_c_", "a_b_c_"),
        ("", "download", "download"),
        (" . ", "download", "download"),
        ("x" * 500, "x" * 200, "x" * 200),
        ("x" * 300 + ".pdf", "x" * 196 + ".pdf", "x" * 196 + ".pdf"),
        ("x." + "y" * 300, "x." + "y" * 198, "x." + "y" * 198),
    ],
)
def test_content_disposition_of_any_name_is_one_safe_line(filename: str, plain: str, extended: str) -> None:
    header = format_content_disposition(filename, inline=False)
    head, _, tail = header.partition("; filename*=UTF-8''")
    assert head == f'attachment; filename="{plain}"'
    assert unquote(tail) == extended
    assert all(" " <= character <= "~" for character in header)
    assert not set(tail) & set("'\"();, \\")


def test_content_disposition_inline_names_file() -> None:
    assert format_content_disposition("a.pdf", inline=True) == "inline; filename=\"a.pdf\"; filename*=UTF-8''a.pdf"


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("application/pdf", "application/pdf"),
        ("text/plain; charset=utf-8", "text/plain; charset=utf-8"),
        ("text/html\r\nX: y", "application/octet-stream"),
        ("nonsense", "application/octet-stream"),
        ("", "application/octet-stream"),
    ],
)
def test_sanitize_media_type_returns_safe_type(given: str, used: str) -> None:
    assert sanitize_media_type(given) == used
