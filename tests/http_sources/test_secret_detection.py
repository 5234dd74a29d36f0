"""Secret detection: a reply that repeats a secret of its request in any encoding is not read."""

import base64
import json
from typing import Any
from urllib.parse import quote

import pytest

from app.http_sources.response import parse_response
from app.http_sources.types import HttpSource, ResponsePaths
from app.inference.circuit_breaker import EndpointFailed

SECRET = 'Bearer s3cr"et/of+the\\site'
TOKEN = SECRET.removeprefix("Bearer ")
BASIC = "Basic " + base64.b64encode(b"carrel:correct horse").decode()
SOURCE = HttpSource("https://search.example.com/", ResponsePaths("results", "text"))


def read(reply: Any, *secrets: str, ascii_only: bool = True) -> list[str]:
    content = json.dumps(reply, ensure_ascii=ascii_only).encode()
    return [
        one.text
        for one in parse_response(content, SOURCE, max_results=5, detect_flags=lambda _text: [], secrets=secrets)
    ]


def base64_behind(text: str, secret: str) -> str:
    return base64.b64encode(f"{text}{secret}!".encode()).decode()


@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize(
    ("secret", "shown"),
    [
        (SECRET, SECRET),
        (SECRET, f"before {SECRET} behind"),
        (SECRET, SECRET.upper()),
        (SECRET, TOKEN),
        (SECRET, TOKEN[::-1]),
        (SECRET, quote(TOKEN)),
        (SECRET, quote(TOKEN, safe="")),
        (SECRET, TOKEN.encode().hex()),
        (SECRET, base64.b64encode(SECRET.encode()).decode()),
        (SECRET, base64.urlsafe_b64encode(TOKEN.encode()).decode()),
        (SECRET, base64_behind("X-Api-Key: ", TOKEN)),
        (SECRET, base64_behind("a", TOKEN)),
        (SECRET, base64_behind("ab", TOKEN)),
        (BASIC, BASIC),
        (BASIC, BASIC.removeprefix("Basic ")),
        (BASIC, "carrel:correct horse"),
        (BASIC, "correct horse"),
    ],
)
def test_read_reply_that_repeats_a_secret_is_refused(secret: str, shown: str, ascii_only: bool) -> None:
    for reply in (
        {"results": [{"text": shown}]},
        {"results": [{"text": "a"}], shown: 1},
        {"results": [{"text": [shown]}]},
    ):
        with pytest.raises(EndpointFailed, match="repeats the secret") as refused:
            read(reply, secret, ascii_only=ascii_only)
        assert shown not in str(refused.value)


def test_read_reply_escaped_in_another_way_is_refused() -> None:
    escaped = "".join(f"\\u{ord(character):04X}" for character in TOKEN)
    content = f'{{"results": [{{"text": "{escaped}"}}]}}'.encode()
    with pytest.raises(EndpointFailed, match="repeats the secret"):
        parse_response(content, SOURCE, max_results=5, detect_flags=lambda _text: [], secrets=[SECRET])


def test_read_reply_without_a_secret_is_read() -> None:
    assert read({"results": [{"text": TOKEN}]}) == [TOKEN]
    assert read({"results": [{"text": "The ferry leaves at noon."}]}, SECRET, BASIC) == ["The ferry leaves at noon."]
