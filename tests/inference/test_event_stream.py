"""Events as endpoints send them, whole or in pieces."""

import pytest

from app.inference.chat.event_stream import EventStreamParser

PLAIN = b'data: {"a": 1}\n\ndata: {"b": 2}\n\ndata: [DONE]\n\n'


def fed(data: bytes, size: int) -> list[bytes]:
    stream = EventStreamParser()
    return [event for at in range(0, len(data), size) for event in stream.feed(data[at : at + size])]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize(
    ("data", "events"),
    [
        (PLAIN, [b'{"a": 1}', b'{"b": 2}', b"[DONE]"]),
        (PLAIN.replace(b"\n", b"\r\n"), [b'{"a": 1}', b'{"b": 2}', b"[DONE]"]),
        (b"event: message\nid: 7\nretry: 3\ndata: x\n\n", [b"x"]),
        (b": still here\n\n:\n\ndata: x\n\n", [b"x"]),
        (b"data:x\n\ndata:  y\n\n", [b"x", b" y"]),
        (b"data: one\ndata: two\n\n", [b"one\ntwo"]),
        (b"data\n\n", [b""]),
        ("data: café\n\n".encode(), ["café".encode()]),
        (b"\n\n\ndata: x\n\n\n\n", [b"x"]),
        (b"data: begun", []),
        (b"data: begun\n", []),
        (b"<html>\n\nwelcome\n\n", []),
        (b"", []),
    ],
    ids=["plain", "CRLF", "fields", "notes", "spaces", "lines", "empty", "UTF-8", "blank", "cut", "open", "html", "-"],
)  # fmt: skip
def test_event_stream_parser_yields_data_of_each_event(data: bytes, events: list[bytes], size: int) -> None:
    assert fed(data, size) == events
