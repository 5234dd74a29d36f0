"""Decoding of compressed request bodies. The limits of bodies apply to the decoded bytes."""

import zlib
from collections import deque

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import Message, Receive, Scope

ACCEPTED_ENCODINGS = "gzip, identity"
_GZIP_NAMES = frozenset({"gzip", "x-gzip"})
_PIECE_BYTES = 64 * 1024
# Gzip and zlib accept this value as "a gzip header and the largest window".
_GZIP_WINDOW_BITS = 16 + zlib.MAX_WBITS
_REPLACED_HEADERS = (b"content-encoding", b"content-length", b"transfer-encoding")


def find_unsupported_encoding(scope: Scope) -> str | None:
    """Return the encoding of a request body that the service cannot decode; None if it can.

    Args:
        scope: ASGI scope of the request.
    """
    names = _list_encodings(scope)
    return next((name for name in names if name not in _GZIP_NAMES), names[1] if len(names) > 1 else None)


def decode_body(scope: Scope, receive: Receive) -> Receive:
    """Return the receive function of a request as if the caller had not compressed the body.

    Args:
        scope: ASGI scope. The headers of a compressed body change in place: they no longer declare a length.
            ``find_unsupported_encoding`` must return None for the scope.
        receive: ASGI receive function.

    Returns:
        The same function if the body is not compressed, else a function that returns the decoded bytes in small pieces.
    """
    if not _list_encodings(scope):
        return receive
    headers = [header for header in scope["headers"] if header[0] not in _REPLACED_HEADERS]
    scope["headers"] = [*headers, (b"transfer-encoding", b"chunked")]
    return _GzipReceiver(receive).receive


def _list_encodings(scope: Scope) -> list[str]:
    listed = ",".join(Headers(scope=scope).getlist("content-encoding")).lower().split(",")
    return [name for name in map(str.strip, listed) if name not in ("", "identity")]


class _GzipReceiver:
    """Receiver of a compressed body. Each message has at most 64 KiB of decoded bytes, however well they compress."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._decoder = zlib.decompressobj(_GZIP_WINDOW_BITS)
        self._compressed = deque[bytes]()
        self._has_more = True
        self._is_started = self._is_complete = False

    async def receive(self) -> Message:
        """Return the next ASGI message with decoded bytes.

        Raises:
            HTTPException: The body is not valid gzip.
        """
        while not self._is_complete:
            decoded = self._decode_piece()
            if decoded:
                return {"type": "http.request", "body": decoded, "more_body": True}
            if not self._has_more:
                if self._is_started and not self._decoder.eof:
                    raise _create_invalid_error()
                self._is_complete = True
                return {"type": "http.request", "body": b"", "more_body": False}
            message = await self._receive()
            if message["type"] != "http.request":
                return message
            self._has_more = message.get("more_body", False)
            if message.get("body"):
                self._compressed.append(message["body"])
        return await self._receive()

    def _decode_piece(self) -> bytes:
        """Return the next decoded bytes; empty if more compressed bytes are needed."""
        while self._compressed:
            compressed = self._compressed.popleft()
            self._is_started = True
            try:
                if self._decoder.eof:  # a gzip file may have several members
                    self._decoder = zlib.decompressobj(_GZIP_WINDOW_BITS)
                decoded = self._decoder.decompress(compressed, _PIECE_BYTES)
            except zlib.error as exc:
                raise _create_invalid_error() from exc
            undecoded = self._decoder.unconsumed_tail or self._decoder.unused_data
            if undecoded:
                self._compressed.appendleft(undecoded)
            if decoded:
                return decoded
        return b""


def _create_invalid_error() -> HTTPException:
    """Create an ``HTTPException``; FastAPI responds with 400 to any other exception while it reads a body."""
    return HTTPException(400, "The body is not valid gzip. Send it whole, or without Content-Encoding.")
