"""Parts of mails: stubs, attached messages in all transfer encodings, flowed text, calendars, reports and encodings."""

import base64
import quopri
from pathlib import Path

import pytest

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats import mail
from app.ingestion.types import ParsedDocument

HTML = "<p>Big news: from May on the new plan costs 19 EUR a month, and support is included for all of you.</p>"
INNER = (
    "From: c@example.org\nSubject: Inner mail\nContent-Type: text/plain; charset=utf-8\n\nThe refund is 49 EUR, Grüße."
)


def parsed(content: bytes | str, directory: Path, options: ParseOptions) -> ParsedDocument:
    path = directory / "mail.eml"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return mail.parse(path, options)


def texts(document: ParsedDocument) -> str:
    return "\n".join(block.text for block in document.blocks)


def multipart(kind: str, *parts: str) -> str:
    body = "".join(f"--X\n{part}\n" for part in parts)
    return f"From: a@example.org\nContent-Type: multipart/{kind}; boundary=X\n\n{body}--X--\n"


@pytest.mark.parametrize(
    ("plain", "is_html"),
    [
        ("Your mail client does not support HTML.", True),
        ("View this email in your browser: https://example.org/n", True),
        ("Diese Nachricht im Browser ansehen", True),
        ("News!", True),
        ("Big news: from May on the new plan costs 19 EUR a month, and support is included for all of you.", False),
        ("From May on the new plan costs 19 EUR a month, support is included.", False),
    ],
)
def test_mail_stub_gives_way_to_html(plain: str, is_html: bool, tmp_path: Path, options: ParseOptions) -> None:
    content = multipart("alternative", f"Content-Type: text/plain\n\n{plain}", f"Content-Type: text/html\n\n{HTML}")
    shown = texts(parsed(content, tmp_path, options))
    assert "19 EUR a month" in shown
    assert ("Big news" in shown and plain not in shown) is is_html or plain in shown


@pytest.mark.parametrize("encoding", ["7bit", "8bit", "base64", "quoted-printable", "BASE64"])
@pytest.mark.parametrize("kind", ["message/rfc822", 'application/octet-stream; name="inner.eml"', "message/global"])
def test_mail_attached_message_is_read(encoding: str, kind: str, tmp_path: Path, options: ParseOptions) -> None:
    encoded = {
        "base64": base64.encodebytes(INNER.encode()).decode(),
        "quoted-printable": quopri.encodestring(INNER.encode()).decode(),
    }.get(encoding.lower(), INNER)
    attached = (
        f"Content-Type: {kind}\nContent-Transfer-Encoding: {encoding}\nContent-Disposition: attachment\n\n{encoded}"
    )
    document = parsed(multipart("mixed", "\nsee below", attached), tmp_path, options)
    assert "Subject: Inner mail\nThe refund is 49 EUR, Grüße." in texts(document)
    assert document.warnings == []
    assert base64.b64encode(INNER.encode()).decode()[:20] not in texts(document)


def test_mail_message_in_encoded_message_is_read(tmp_path: Path, options: ParseOptions) -> None:
    content = INNER
    for _ in range(3):
        encoded = base64.encodebytes(content.encode()).decode()
        part = f"Content-Type: message/rfc822\nContent-Transfer-Encoding: base64\n\n{encoded}"
        content = multipart("mixed", "\nouter", part)
    assert "The refund is 49 EUR" in texts(parsed(content, tmp_path, options))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-8-sig", "utf-32"])
def test_mail_in_wide_encoding_is_read(encoding: str, tmp_path: Path, options: ParseOptions) -> None:
    content = (
        "From: a@example.org\nSubject: Größe\nContent-Type: text/plain; charset=iso-8859-1\n\nGeöffnet von 9 bis 5"
    )
    if encoding == "utf-8-sig":
        content = content.replace("iso-8859-1", "utf-8")
    document = parsed(content.encode(encoding), tmp_path, options)
    assert document.title == "Größe"
    assert "Geöffnet von 9 bis 5" in texts(document)


@pytest.mark.parametrize(
    ("header", "shown"),
    [
        ("=?utf-8?Q?Stra=C3?= =?utf-8?Q?=9Fe?=", "Straße"),
        ("=?utf-8?B?U3RyYcM=?=\n =?utf-8?B?n2U=?=", "Straße"),
        ("=?iso-8859-1?Q?Gr=FC=DFe_aus?= =?utf-8?Q?_K=C3=B6ln?=", "Grüße aus Köln"),
        ('"=?utf-8?Q?J=C3=BCrgen?=" <j@example.org>', '"Jürgen" <j@example.org>'),
        ("Re: =?utf-8*en?Q?Preis_5_=E2=82=AC?= today", "Re: Preis 5 € today"),
        ("=?utf-8?Q?unfinished", "=?utf-8?Q?unfinished"),
    ],
)
def test_mail_encoded_words_are_decoded_together(
    header: str, shown: str, tmp_path: Path, options: ParseOptions
) -> None:
    assert parsed(f"Subject: {header}\n\ntext", tmp_path, options).title == shown


@pytest.mark.parametrize(
    ("parameters", "body", "shown"),
    [
        ("format=flowed", "The price is \n19 EUR a month.\nNew line", "The price is 19 EUR a month.\nNew line"),
        ("format=flowed; delsp=yes", "Donau \ndampfschiff", "Donaudampfschiff"),
        ("format=flowed", "> quoted \n> text\nanswer", "> quoted text\nanswer"),
        ("format=flowed", " From here \nto there", "From here to there"),
        ("charset=utf-8", "The price is \n19 EUR", "The price is\n19 EUR"),
    ],
)
def test_mail_flowed_lines_are_joined(
    parameters: str, body: str, shown: str, tmp_path: Path, options: ParseOptions
) -> None:
    document = parsed(f"From: a@example.org\nContent-Type: text/plain; {parameters}\n\n{body}", tmp_path, options)
    assert document.blocks[-1].text == shown


def test_mail_calendar_part_is_read_once(tmp_path: Path, options: ParseOptions) -> None:
    calendar = (
        "Content-Type: text/calendar; method=REQUEST\n\nBEGIN:VCALENDAR\nBEGIN:VEVENT\n"
        "SUMMARY:Board meeting\\, room 2\n"
        "DTSTART;TZID=Europe/Berlin:20240315T090000\nDTEND:20240315T100000Z\nLOCATION:Bonn\nDESCRIPTION:Bring the\n"
        "  budget\nORGANIZER;CN=Ada:mailto:ada@example.org\nEND:VEVENT\nEND:VCALENDAR"
    )
    content = multipart("alternative", "\nInvitation to the board meeting", calendar)
    document = parsed(content, tmp_path, options)
    assert (
        "Event: Board meeting, room 2\nStart: 2024-03-15 09:00\nEnd: 2024-03-15 10:00 UTC\nLocation: Bonn\n"
        "Description: Bring the budget\nOrganizer: Ada"
    ) in texts(document)
    assert "Invitation" in texts(document)


def test_mail_delivery_report_is_read(tmp_path: Path, options: ParseOptions) -> None:
    status = (
        "Content-Type: message/delivery-status\n\nReporting-MTA: dns; mx.example.org\n\n"
        "Final-Recipient: rfc822; bob@example.org\nAction: failed\nStatus: 5.1.1\n"
        "Diagnostic-Code: smtp; 550 no such user\n"
    )
    shown = texts(parsed(multipart("report", "\nYour mail was not delivered.", status), tmp_path, options))
    assert "Final-Recipient: rfc822; bob@example.org\nAction: failed\nStatus: 5.1.1" in shown


@pytest.mark.parametrize(
    ("part", "code"),
    [
        ("Content-Type: application/pkcs7-mime; smime-type=enveloped-data\n\nMIAG", "encrypted_parts_not_read"),
        ("Content-Type: multipart/encrypted; boundary=Y\n\n--Y\n\nx\n--Y--", "encrypted_parts_not_read"),
        ("\n-----BEGIN PGP MESSAGE-----\n\nhQEMA\n-----END PGP MESSAGE-----", "encrypted_parts_not_read"),
        ("Content-Type: application/ms-tnef; name=winmail.dat\n\nx", "attachments_not_read"),
        ("Content-Type: application/pdf; name=a.pdf\n\n%PDF", "attachments_not_read"),
    ],
)
def test_mail_unread_parts_are_counted(part: str, code: str, tmp_path: Path, options: ParseOptions) -> None:
    document = parsed(multipart("mixed", "\nsee below", part), tmp_path, options)
    assert [(warning.code, warning.count) for warning in document.warnings] == [(code, 1)]
    assert "hQEMA" not in texts(document)


def test_mail_pgp_signature_is_left_out(tmp_path: Path, options: ParseOptions) -> None:
    body = (
        "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\nThe price is 19 EUR.\n-----BEGIN PGP SIGNATURE-----\n\n"
        "iQEzBAEBCAAd\n-----END PGP SIGNATURE-----\n"
    )
    document = parsed(f"From: a@example.org\n\n{body}", tmp_path, options)
    assert document.blocks[-1].text == "The price is 19 EUR."
    assert document.warnings == []
