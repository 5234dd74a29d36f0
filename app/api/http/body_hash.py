"""Hash of a request's body, computed while the handler reads it.

A request with a known idempotency key and an equal hash is a retry; with another hash, it is another request.

The boundary of a multipart form differs between retries of the same upload. Therefore each part is hashed separately,
without the delimiters, and the hash of the part hashes is the hash of the body. Forms with the same bytes in different
parts have different hashes.
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
    """Hasher of one body, which arrives in pieces. The memory does not depend on the size of the body."""

    # No form may have more parts. The bytes after the last counted part are hashed as one part, to limit the CPU time.
    MAX_PARTS: ClassVar[int] = 1000

    def __init__(self, content_type: str) -> None:
        # The routes do not accept a longer header as a multipart form either.
        kind, options = parse_options_header(content_type if len(content_type) <= MAX_CONTENT_TYPE_CHARACTERS else "")
        boundary = options.get(b"boundary") if kind == b"multipart/form-data" else None
        self._body_hash = hashlib.sha256(kind)
        self._part_hash = hashlib.sha256()
        self._part_count = 0
        self._delimiter = b"\r\n--" + boundary if boundary else b""
        self._unhashed = b"\r\n" if boundary else b""  # the first delimiter of a form has no line break before it

    def update(self, piece: bytes) -> None:
        """Add the next bytes of the body."""
        if not self._delimiter:
            self._part_hash.update(piece)
            return
        *complete_parts, last = (self._unhashed + piece).split(self._delimiter, self.MAX_PARTS - self._part_count)
        for part in complete_parts:
            self._part_hash.update(part)
            self._finish_part()
        # The last bytes may be the beginning of a delimiter that continues in the next piece.
        certain_bytes = max(0, len(last) - len(self._delimiter) + 1)
        self._part_hash.update(last[:certain_bytes])
        self._unhashed = last[certain_bytes:]

    def digest(self) -> bytes:
        """Return the hash. Call it once, after the last piece."""
        self._part_hash.update(self._unhashed)
        self._finish_part()
        return self._body_hash.digest()

    def _finish_part(self) -> None:
        self._body_hash.update(self._part_hash.digest())
        self._part_hash = hashlib.sha256()
        self._part_count += 1


class HashingReceiver:
    """Receiver of a request's body that hashes it. Its ``receive`` replaces that of the request."""

    def __init__(self, request: Request) -> None:
        self._receive = request.receive
        self._hasher = BodyHasher(request.headers.get("content-type", ""))
        self._is_complete = False

    async def receive(self) -> Message:
        """Return the next ASGI message, and add its bytes to the hash."""
        message = await self._receive()
        if message["type"] == "http.request":
            self._hasher.update(message.get("body", b""))
            self._is_complete = self._is_complete or not message.get("more_body", False)
        return message

    async def finish_hash(self, max_unread_bytes: int) -> bytes:
        """Read the rest of the body and return the hash of the whole body.

        Args:
            max_unread_bytes: Maximum number of bytes that this method reads after the handler.

        Returns:
            The SHA-256 hash, 32 bytes.

        Raises:
            TooLargeError: The handler left more bytes unread.
            ClientDisconnect: The caller closed the connection.
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
