"""Mail: headers, the better of two texts, nested messages, named attachments, and invalid headers."""

from pathlib import Path

import pytest

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats import mail
from app.ingestion.parsers.formats.mail import MAX_DEPTH, MAX_PARTS
from app.ingestion.types import CorruptFile, EncryptedFile, ParsedDocument, TextTooLong
from app.warnings import ServiceWarning

LETTER = """\
Received: from there by here; Mon, 1 Jan 2024 10:00:01 +0100
From: =?utf-8?q?J=C3=BCrgen?= <j@example.org>
To: Anna <a@example.org>,
 Bob <b@example.org>
Date: Mon, 1 Jan 2024 10:00:00 +0100
Subject: =?utf-8?b?R3LDvMOfZQ==?= from Bonn
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary=X

--X
Content-Type: multipart/alternative; boundary=Y

--Y
Content-Type: text/html

<p>not this one
--Y
Content-Type: text/plain; charset=iso-8859-1
Content-Transfer-Encoding: quoted-printable

Sch=F6ne Gr=FC=DFe

Second paragraph
--Y--
--X
Content-Type: application/pdf
Content-Disposition: attachment; filename="=?utf-8?q?r=C3=A9sum=C3=A9=2Epdf?="

%PDF
--X
Content-Type: message/rfc822

From: old@example.org
Subject: What I wrote before
Content-Type: text/html; charset=utf-8

<h1>Hello</h1><p>there
--X
Content-Type: image/png

png
--X
Content-Type: application/pgp-signature; name=signature.asc

----
--X--
"""


def parsed(content: bytes | str, directory: Path, options: ParseOptions) -> ParsedDocument:
    path = directory / "mail.eml"
    path.write_bytes(content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content)
    return mail.parse(path, options)


@pytest.mark.capability("format-mail")
@pytest.mark.parametrize("line_break", ["\n", "\r\n"])
def test_mail_message_is_read(line_break: str, tmp_path: Path, options: ParseOptions) -> None:
    document = parsed(LETTER.replace("\n", line_break), tmp_path, options)
    assert document.title == "Grüße from Bonn"
    assert [(block.kind.value, block.text) for block in document.blocks] == [
        (
            "paragraph",
            "From: Jürgen <j@example.org>\nTo: Anna <a@example.org>, Bob <b@example.org>\n"
            "Date: Mon, 01 Jan 2024 10:00:00 +0100\nSubject: Grüße from Bonn",
        ),
        ("paragraph", "Schöne Grüße"),
        ("paragraph", "Second paragraph"),
        ("heading", "What I wrote before"),
        ("paragraph", "From: old@example.org\nSubject: What I wrote before"),
        ("heading", "Hello"),
        ("paragraph", "there"),
    ]
    assert document.warnings == [
        ServiceWarning("attachments_not_read", "2 attachments were not read: résumé.pdf, image/png.", 2)
    ]


@pytest.mark.parametrize(
    ("rest", "texts"),
    [
        ("Content-Type: text/html\n\n<p>Only <b>HTML</b></p>", ["Only HTML"]),
        (
            "Content-Type: multipart/alternative; boundary=X\n\n--X\nContent-Type: text/plain\n\n \n"
            "--X\nContent-Type: text/html\n\n<p>full page\n--X--",
            ["full page"],
        ),
        (
            "Content-Type: multipart/mixed; boundary=X\n\n--X\n\none\n--X\nContent-Type: image/gif\n\nG\n--X\n\ntwo\n",
            ["one", "two"],
        ),
        ("Content-Type: multipart/mixed; boundary=X\n\nthe boundary never comes", ["the boundary never comes"]),
        ("Content-Type: text/plain; charset=no-such-code\n\nGrüße", ["Grüße"]),
        ("Content-Type: text/plain; charset=us-ascii\n\nGrüße", ["Grüße"]),
        ('Content-Type: ;;;"((\n\ntext', ["text"]),
        ("Content-Transfer-Encoding: base64\n\nR3LDvMOf*ZQ", ["Grüße"]),
        ("Content-Transfer-Encoding: nonsense\n\ntext", ["text"]),
        ("A line that is no header\n\ntext", ["A line that is no header", "text"]),
    ],
)
def test_mail_bodies_better_text_is_chosen(rest: str, texts: list[str], tmp_path: Path, options: ParseOptions) -> None:
    document = parsed(f"From: a@example.org\n{rest}", tmp_path, options)
    assert [block.text for block in document.blocks] == ["From: a@example.org", *texts]


@pytest.mark.parametrize(
    ("header", "shown"),
    [
        ("Subject: Grüße", "Subject: Grüße"),
        ("Subject: =?no-such-code?q?abc?=", "Subject: abc"),
        ("Date: yesterday", "Date: yesterday"),
        ("From: (((((((( <", "From: (((((((( <"),
        ("To: " + "(" * 5000, "To: " + "(" * 2000),
    ],
)
def test_mail_invalid_headers_are_shown(header: str, shown: str, tmp_path: Path, options: ParseOptions) -> None:
    document = parsed(f"{header}\n\ntext", tmp_path, options)
    assert document.blocks[0].text == shown


def test_mail_many_attachments_are_counted(tmp_path: Path, options: ParseOptions) -> None:
    parts = "".join(f"--X\nContent-Type: image/png; name=p{number}.png\n\nx\n" for number in range(30))
    document = parsed(f"From: a\nContent-Type: multipart/mixed; boundary=X\n\n{parts}--X--", tmp_path, options)
    assert document.warnings[0].message.startswith("30 attachments were not read: p0.png, p1.png, ")
    assert document.warnings[0].message.endswith(", p19.png and 10 more.")


def test_mail_nested_messages_are_read_to_a_depth(tmp_path: Path, options: ParseOptions) -> None:
    inner = "".join(f"Subject: level {number}\nContent-Type: message/rfc822\n\n" for number in range(MAX_DEPTH + 2))
    document = parsed(f"{inner}Subject: last\n\ntext", tmp_path, options)
    headings = [block.text for block in document.blocks if block.kind.value == "heading"]
    assert headings == [f"level {number}" for number in range(1, MAX_DEPTH + 1)]
    assert document.warnings == [
        ServiceWarning("attachments_not_read", "1 attachment was not read: message/rfc822.", 1)
    ]


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("just prose, no header at all", CorruptFile),
        (b"\x89PNG\r\n\x1a\n" + bytes(100), CorruptFile),
        ("From: a\nContent-Type: message/rfc822\n\n" * 3000, CorruptFile),
        ("From: a\nContent-Type: multipart/encrypted; boundary=X\n\n--X\n\nx\n--X--", EncryptedFile),
        ("From: a\nContent-Type: application/pkcs7-mime; smime-type=enveloped-data\n\nMII", EncryptedFile),
        ("From: a\nContent-Type: multipart/mixed; boundary=X\n\n" + "--X\n\n" * (MAX_PARTS + 1), TextTooLong),
        ("From: a\n\n" + "long " * 50_000, TextTooLong),
        ("From: a\n\n" + "\n" * 3_000_001, TextTooLong),
    ],
    ids=["prose", "binary", "nested", "pgp", "smime", "parts", "text", "lines"],
)
def test_mail_other_content_is_refused(
    content: bytes | str, error: type[Exception], tmp_path: Path, options: ParseOptions
) -> None:
    with pytest.raises(error):
        parsed(content, tmp_path, options)
