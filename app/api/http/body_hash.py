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

from app.api.http.json_limits import MAX_CONTENT_TYPE_CHARACTERS
from app.errors import TooLargeError


class BodyHasher:
    """Fed piece by piece; memory stays constant."""

    # More than any form may have; what is cut into more would cost more than it weighs.
    MAX_PARTS: ClassVar[int] = 1000

    def __init__(self, content_type: str) -> None:
        # A longer header is no multipart form to the routes either.
        kind, options = parse_options_header(content_type if len(content_type) <= MAX_CONTENT_TYPE_CHARACTERS else "")
        boundary = options.get(b"boundary") if kind == b"multipart/form-data" else None
        self._body_hash = hashlib.sha256(kind)
        self._part_hash = hashlib.sha256()
        self._part_count = 0
        self._delimiter = b"\r\n--" + boundary if boundary else b""
        self._unhashed = b"\r\n" if boundary else b""  # a form may begin with its delimiter

    def update(self, piece: bytes) -> None:
        """The next bytes."""
        if not self._delimiter:
            self._part_hash.update(piece)
            return
        *complete_parts, last = (self._unhashed + piece).split(self._delimiter, self.MAX_PARTS - self._part_count)
        for part in complete_parts:
            self._part_hash.update(part)
            self._finish_part()
        # A delimiter may go on in the next piece.
        certain_bytes = max(0, len(last) - len(self._delimiter) + 1)
        self._part_hash.update(last[:certain_bytes])
        self._unhashed = last[certain_bytes:]

    def digest(self) -> bytes:
        """After the last piece."""
        self._part_hash.update(self._unhashed)
        self._finish_part()
        return self._body_hash.digest()

    def _finish_part(self) -> None:
        self._body_hash.update(self._part_hash.digest())
        self._part_hash = hashlib.sha256()
        self._part_count += 1


class HashingReceiver:
    """A request's body; ``receive`` stands in for the request's own."""

    def __init__(self, request: Request) -> None:
        self._receive = request.receive
        self._hasher = BodyHasher(request.headers.get("content-type", ""))
        self._is_complete = False

    async def receive(self) -> Message:
        """The next message, its bytes counted in."""
        message = await self._receive()
        if message["type"] == "http.request":
            self._hasher.update(message.get("body", b""))
            self._is_complete = self._is_complete or not message.get("more_body", False)
        return message

    async def finish_hash(self, max_unread_bytes: int) -> bytes:
        """The hash, when what nobody has read yet is read too.

        Raises TooLargeError beyond ``max_unread_bytes``, ClientDisconnect.
        """
        unread_bytes = 0
        while not self._is_complete:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            unread_bytes += len(message.get("body", b""))
            if unread_bytes > max_unread_bytes:
                raise TooLargeError(f"The body is larger than {max_unread_bytes} bytes.")
        return self._hasher.digest()
