"""Detection of secrets in responses, in every form in which an endpoint may repeat a request header."""

import base64
import binascii
import json
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote, quote_plus

# A shorter part of a secret may occur in a response by chance.
MIN_PART_CHARACTERS = 6


def repeats_secret(content: bytes, reply: Any, secrets: Sequence[str]) -> bool:
    """Return whether a response contains a secret of its request.

    Args:
        content: Body of the response.
        reply: Parsed JSON of the body, in which escapes are resolved.
        secrets: The header values of the request.

    Raises:
        RecursionError: The response is nested too deeply.
    """
    if not secrets:
        return False
    texts = (content.decode("utf-8", "replace").lower(), json.dumps(reply, ensure_ascii=False).lower())
    return any(form in text for form in _collect_forms(secrets) for text in texts)


def _collect_forms(secrets: Sequence[str]) -> set[str]:
    """Return all forms of the secrets, in lower case."""
    parts = set(secrets) | {part for secret in secrets for part in _split_secret(secret)}
    spellings = {form for part in parts for form in _generate_spellings(part)}
    return {text.lower() for form in spellings for text in (form, json.dumps(form)[1:-1])}


def _split_secret(secret: str) -> Iterator[str]:
    """Yield the credentials after the name of the scheme, and the password inside Basic credentials."""
    scheme, _, credentials = secret.partition(" ")
    candidates = [credentials]
    if scheme.lower() == "basic":
        try:
            plain = base64.b64decode(credentials, validate=True).decode("utf-8", "replace")
        except binascii.Error:
            plain = ""
        candidates += [plain, plain.partition(":")[2]]
    yield from (part for part in candidates if len(part) >= MIN_PART_CHARACTERS)


def _generate_spellings(part: str) -> Iterator[str]:
    raw = part.encode()
    yield from (part, part[::-1], quote(part, safe=""), quote(part), quote_plus(part), raw.hex())
    # Base64 of a longer text contains the part in one of three forms, which depend on its offset.
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + raw).decode().rstrip("=")
        first = {0: 0, 1: 2, 2: 3}[before]
        inner = encoded[first : len(encoded) - (1 if (before + len(raw)) % 3 else 0)]
        if len(inner) >= MIN_PART_CHARACTERS:
            yield from (inner, inner.translate(str.maketrans("+/", "-_")))
