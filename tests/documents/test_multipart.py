"""Multipart forms: whole, in pieces, broken, too large, and with unusual file names."""

import hashlib
import random
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.documents.types import ReceivedForm, UploadTooLarge
from app.documents.upload.multipart import (
    MAX_FIELD_BYTES,
    MAX_FIELDS,
    MAX_FORM_OVERHEAD_BYTES,
    clean_filename,
    receive_form,
    spool_text,
)
from app.documents.upload.text_formats import MARKDOWN, PLAIN, guess_text_type
from app.errors import InvalidInputError
from app.threads import SLICE_CHARACTERS

BOUNDARY = b"a-boundary"
LIMIT = 3_000_000


def part(name: str, content: bytes, *, filename: str | None = None, extra: str = "") -> bytes:
    file = "" if filename is None else f'; filename="{filename}"'
    head = f'--{BOUNDARY.decode()}\r\nContent-Disposition: form-data; name="{name}"{file}\r\n{extra}\r\n'
    return head.encode() + content + b"\r\n"


def form(*parts: bytes) -> bytes:
    return b"".join(parts) + b"--" + BOUNDARY + b"--\r\n"


async def pieces(body: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(body), size):
        yield body[start : start + size]


async def received(
    body: bytes, *, size: int = 65_536, limit: int = LIMIT, most_files: int = 1
) -> tuple[ReceivedForm, list[bytes]]:
    async with receive_form(pieces(body, size), BOUNDARY, max_bytes=limit, max_files=most_files) as found:
        contents = [file.path.read_bytes() for file in found.files]
    assert not any(file.path.exists() for file in found.files)
    return found, contents


@pytest.mark.parametrize("size", [1, 2, 7, 64, 4096, 10**9])
async def test_multipart_form_in_pieces_of_any_size_is_read(size: int) -> None:
    content = random.Random(size).randbytes(5000) + b"\r\n--a-bound\r\n--" + b"\r" * 9
    body = form(part("title", "Größe".encode()), part("file", content, filename="a.bin"), part("user_id", b"u"))
    found, contents = await received(body, size=size)
    assert contents == [content]
    (file,) = found.files
    assert (file.size, file.sha256) == (len(content), hashlib.sha256(content).digest())
    assert (file.filename, file.declared_type) == ("a.bin", None)
    assert found.fields == {"title": "Größe", "user_id": "u"}


async def test_multipart_large_file_is_written_to_disk(tmp_path: Path) -> None:
    content = random.Random(0).randbytes(LIMIT)
    found, contents = await received(
        form(part("file", content, filename="x", extra="Content-Type: Text/Plain; a=b\r\n"))
    )
    assert (contents, found.files[0].declared_type) == ([content], "text/plain")


@pytest.mark.parametrize("size", [1, 3, 1000, 10**9])
async def test_multipart_many_files_are_separate(size: int) -> None:
    contents = [random.Random(number).randbytes(number * 700) for number in range(5)]
    files = [part("file", content, filename=f"{number}.bin") for number, content in enumerate(contents)]
    found, read = await received(form(*files, part("user_id", b"u")), size=size, most_files=5)
    assert read == contents
    assert [(file.filename, file.size) for file in found.files] == [(f"{n}.bin", n * 700) for n in range(5)]
    assert [file.sha256 for file in found.files] == [hashlib.sha256(content).digest() for content in contents]
    assert found.fields == {"user_id": "u"}


async def test_multipart_many_files_share_limit_and_are_counted() -> None:
    body = form(*(part("file", bytes(1000), filename=f"{number}") for number in range(3)))
    with pytest.raises(UploadTooLarge, match="together"):
        await received(body, limit=2999, most_files=3)
    with pytest.raises(InvalidInputError, match="at most 2"):
        await received(body, most_files=2)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (form(part("file", bytes(LIMIT + 1), filename="x")), UploadTooLarge),
        (form(part("file", b"x", filename="x"), part("title", bytes(MAX_FIELD_BYTES + 1))), UploadTooLarge),
        (form(part("file", b"x", filename="x")) + bytes(LIMIT + MAX_FORM_OVERHEAD_BYTES), UploadTooLarge),
        (form(part("title", b"no file")), InvalidInputError),
        (form(part("file", b"1", filename="x"), part("file", b"2", filename="y")), InvalidInputError),
        (form(part("file", b"1", filename="x"), part("title", b"1"), part("title", b"2")), InvalidInputError),
        (form(*(part(f"f{number}", b"") for number in range(MAX_FIELDS + 1))), InvalidInputError),
        (form(part("title", b"\xff\xfe"), part("file", b"x", filename="x")), InvalidInputError),
        (form(part("file", b"x", filename="x"))[:-6], InvalidInputError),
        (part("file", b"x", filename="x"), InvalidInputError),
        (form(), InvalidInputError),
        (b"", InvalidInputError),
        (b"no boundary anywhere", InvalidInputError),
        (form(part("file", b"x", filename="x", extra="X-Long: " + "x" * 100_000 + "\r\n")), InvalidInputError),
        (form(part("file", b"x", filename="x", extra="".join(f"X-{n}: x\r\n" for n in range(100)))), InvalidInputError),
        (form(part("file", b"x", filename="x")).replace(b"name=", b"game="), InvalidInputError),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
@pytest.mark.parametrize("size", [1000, 65_536])
async def test_multipart_broken_form_is_refused_and_leaves_no_file(
    body: bytes, error: type[Exception], size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with pytest.raises(error):
        await received(body, size=size)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["", " \n\t", "a\0b", "\ud800"])
async def test_spool_text_unstorable_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError):
        async with spool_text(text, filename="x", media_type="text/plain"):
            pass


async def test_spool_text_writes_file() -> None:
    async with spool_text("Žluťoučký kůň", filename="x", media_type="text/plain") as file:
        assert file.path.read_text("utf-8") == "Žluťoučký kůň"
        assert (file.size, file.sha256) == (19, hashlib.sha256("Žluťoučký kůň".encode()).digest())


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("handbook.pdf", "handbook.pdf"),
        ("../../etc/passwd", "passwd"),
        ("C:\\Users\\me\\plan.docx", "plan.docx"),
        ("/absolute/path.txt", "path.txt"),
        ("..", "upload"),
        (".", "upload"),
        ("", "upload"),
        ("///", "upload"),
        (" spaced name.txt ", "spaced name.txt"),
        ("a\r\nSet-Cookie: x.txt", "aSet-Cookie: x.txt"),
        ("nul\0l.txt", "null.txt"),
        ("evil\u202efdp.exe", "evilfdp.exe"),
        ("\u2067a\u2066b\u2069\u200f\u061c\u200ec\u202a.txt", "abc.txt"),
        ("CON", "_CON"),
        ("nul.txt", "_nul.txt"),
        ("Com1.tar.gz", "_Com1.tar.gz"),
        ("lpt¹.pdf", "_lpt¹.pdf"),
        ("aux .txt", "_aux .txt"),
        ("console.log", "console.log"),
        ("naïve 履歴書.pdf", "naïve 履歴書.pdf"),
        ("x" * 10_000 + ".pdf", "x" * 251 + ".pdf"),
        ("x" * 10_000, "x" * 255),
        ("a." + "x" * 10_000, "a." + "x" * 253),
    ],
)
def test_clean_filename_removes_path(given: str, kept: str) -> None:
    assert clean_filename(given) == kept


class WatchedText(str):
    """Text that records the threads that search it."""

    __slots__ = ("threads",)
    threads: set[int]

    def __contains__(self, part: object) -> bool:
        self.threads.add(threading.get_ident())
        return super().__contains__(part)  # type: ignore[operator]  # as str's own

    def isspace(self) -> bool:
        self.threads.add(threading.get_ident())
        return super().isspace()

    def strip(self, characters: str | None = None, /) -> str:
        self.threads.add(threading.get_ident())
        return super().strip(characters)

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        self.threads.add(threading.get_ident())
        return super().encode(encoding, errors)


@pytest.mark.parametrize("media_type", [None, "text/plain"])
async def test_spool_text_does_not_block_event_loop(media_type: str | None) -> None:
    text = WatchedText("# Birds\n\nA tern.")
    text.threads = set()
    async with spool_text(text, filename="x", media_type=media_type) as file:
        assert file.declared_type == (media_type or "text/markdown")
        assert file.path.read_text() == text
    assert text.threads
    assert threading.get_ident() not in text.threads


def test_guess_text_type_finds_heading_across_slices() -> None:
    for before in range(SLICE_CHARACTERS - 10, SLICE_CHARACTERS + 2):
        words = "x" * before
        assert guess_text_type(f"{words}\n###### Birds") == MARKDOWN
        assert guess_text_type(f"{words}###### no heading") == PLAIN
        assert guess_text_type(f"{words}\n####### seven") == PLAIN
