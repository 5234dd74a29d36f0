"""Hash of a request body: equal for the same parts, however they are encoded, and different for other parts."""

from collections.abc import Sequence

import pytest

from app.api.http.body_hash import BodyHasher

JSON = "application/json"
Part = tuple[str, bytes]


def digest(content_type: str, body: bytes, *, piece: int = 1 << 20) -> bytes:
    made = BodyHasher(content_type)
    for start in range(0, len(body), piece):
        made.update(body[start : start + piece])
    return made.digest()


def form(boundary: str, parts: Sequence[Part]) -> tuple[str, bytes]:
    """Return the content type and the body of a form."""
    delimiter = f"--{boundary}".encode()
    body = b"".join(
        delimiter + f'\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n'.encode() + content + b"\r\n"
        for name, content in parts
    )
    return f'multipart/form-data; boundary="{boundary}"', body + delimiter + b"--\r\n"


PARTS = [("file", b"\r\n--a\r\n-- words \r\n\r\n" * 3), ("title", b""), ("metadata", b'{"a": 1}')]


@pytest.mark.parametrize("boundary", ["b", "----WebKitFormBoundary7MA4YWxkTrZu0gW", "x" * 70, "a-b'c"])
def test_body_hash_ignores_boundary(boundary: str) -> None:
    assert digest(*form(boundary, PARTS)) == digest(*form("another", PARTS))


@pytest.mark.parametrize("piece", [1, 2, 3, 7, 50])
def test_body_hash_ignores_slicing(piece: int) -> None:
    for content_type, body in (form("boundary", PARTS), (JSON, b'{"text": "words"}')):
        assert digest(content_type, body, piece=piece) == digest(content_type, body)


@pytest.mark.parametrize(
    "parts",
    [
        PARTS[:2],
        PARTS[::-1],
        [*PARTS, PARTS[0]],
        [("file", b"other"), *PARTS[1:]],
        [("files", PARTS[0][1]), *PARTS[1:]],
        # The parts of one form are the content of a single part of the other form.
        [("file", form("other", PARTS)[1])],
    ],
    ids=["one less", "another order", "one more", "another content", "another name", "a form in a form"],
)
def test_body_hash_differs_for_other_parts(parts: list[Part]) -> None:
    assert digest(*form("boundary", parts)) != digest(*form("boundary", PARTS))


def test_body_hash_separates_adjacent_parts() -> None:
    assert digest(*form("boundary", [("a", b"xy"), ("b", b"z")])) != digest(
        *form("boundary", [("a", b"x"), ("b", b"yz")])
    )


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (JSON, "Application/JSON; charset=utf-8", True),
        (JSON, "text/plain", False),
        (JSON, "", False),
        ("multipart/form-data", "multipart/form-data", True),
    ],
)
def test_body_hash_includes_media_type(one: str, other: str, same: bool) -> None:
    assert (digest(one, b"{}") == digest(other, b"{}")) is same


def test_body_hash_of_many_partial_boundaries_differs() -> None:
    dust = b"\r\n--b" * 100_000
    assert digest("multipart/form-data; boundary=b", dust) == digest(
        "multipart/form-data; boundary=b", dust, piece=10_007
    )
    assert digest("multipart/form-data; boundary=b", dust) != digest("multipart/form-data; boundary=b", dust + b"x")
