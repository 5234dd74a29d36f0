"""The hash of a request's body, made while it passes, so that a retry can be told from another request.

A form's boundary differs between retries of the same upload, so the parts are hashed one by one and the delimiters
left out; the hash of their hashes is the body's, which keeps apart what is cut in other places.
"""

import hashlib
from typing import ClassVar

from fastapi import Request
from python_multipart.multipart import parse_options_header
from starlette.requests import ClientDisconnect
from starlette.types import Message

from app.api.json_limits import LONGEST_CONTENT_TYPE
from app.errors import TooLarge


class BodyDigest:
    """Fed piece by piece; memory stays constant."""

    # More than any form may have; what is cut into more would cost more than it weighs.
    MOST_PARTS: ClassVar[int] = 1000

    def __init__(self, content_type: str) -> None:
        # A longer header is no multipart form to the routes either.
        kind, options = parse_options_header(content_type if len(content_type) <= LONGEST_CONTENT_TYPE else "")
        boundary = options.get(b"boundary") if kind == b"multipart/form-data" else None
        self._whole = hashlib.sha256(kind)
        self._part = hashlib.sha256()
        self._parts = 0
        self._delimiter = b"\r\n--" + boundary if boundary else b""
        self._rest = b"\r\n" if boundary else b""  # a form may begin with its delimiter

    def feed(self, piece: bytes) -> None:
        """The next bytes."""
        if not self._delimiter:
            self._part.update(piece)
            return
        *whole, last = (self._rest + piece).split(self._delimiter, self.MOST_PARTS - self._parts)
        for part in whole:
            self._part.update(part)
            self._close()
        # A delimiter may go on in the next piece.
        certain = max(0, len(last) - len(self._delimiter) + 1)
        self._part.update(last[:certain])
        self._rest = last[certain:]

    def digest(self) -> bytes:
        """After the last piece."""
        self._part.update(self._rest)
        self._close()
        return self._whole.digest()

    def _close(self) -> None:
        self._whole.update(self._part.digest())
        self._part = hashlib.sha256()
        self._parts += 1


class HashedBody:
    """A request's body; ``receive`` stands in for the request's own."""

    def __init__(self, request: Request) -> None:
        self._receive = request.receive
        self._digest = BodyDigest(request.headers.get("content-type", ""))
        self._ended = False

    async def receive(self) -> Message:
        """The next message, its bytes counted in."""
        message = await self._receive()
        if message["type"] == "http.request":
            self._digest.feed(message.get("body", b""))
            self._ended = self._ended or not message.get("more_body", False)
        return message

    async def finish(self, limit: int) -> bytes:
        """The hash, when what nobody has read yet is read too. Raises TooLarge beyond ``limit``, ClientDisconnect."""
        left = 0
        while not self._ended:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            left += len(message.get("body", b""))
            if left > limit:
                raise TooLarge(f"The body is larger than {limit} bytes.")
        return self._digest.digest()
