"""Receive an upload: a streamed body into one temporary file, counted and hashed on the way."""

import asyncio
import hashlib
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from app.documents.types import EmptyUpload, ReceivedFile, UploadTooLarge
from app.errors import InvalidInput

MAX_FIELD_BYTES = 64 * 1024
MAX_FIELDS = 32
MAX_FILENAME = 255
OVERHEAD = 1024 * 1024
_BUFFER = 1024 * 1024


def clean_filename(name: str) -> str:
    """The last component of the name, printable, at most 255 characters; ``upload`` if nothing is left."""
    name = PureWindowsPath(PurePosixPath(name).name).name
    name = "".join(char for char in name if char.isprintable()).strip().strip(".")
    if len(name) > MAX_FILENAME:
        stem, dot, suffix = name.rpartition(".")
        keep = MAX_FILENAME - len(suffix) - 1
        name = f"{stem[:keep]}.{suffix}" if dot and keep > 0 else name[:MAX_FILENAME]
    return name or "upload"


@dataclass(slots=True)
class _Sink:
    """Collects what the multipart parser's callbacks yield: small fields in memory, the file's bytes in a buffer."""

    limit: int
    fields: dict[str, str] = field(default_factory=dict)
    filename: str | None = None
    declared_type: str | None = None
    buffer: bytearray = field(default_factory=bytearray)
    size: int = 0
    _header: bytearray = field(default_factory=bytearray)
    _value: bytearray = field(default_factory=bytearray)
    _headers: dict[str, bytes] = field(default_factory=dict)
    _name: str = ""
    _in_file: bool = False
    complete: bool = False

    def callbacks(self) -> dict[str, object]:
        """What MultipartParser calls."""
        return {
            "on_part_begin": self._headers.clear,
            "on_header_field": lambda data, start, end: self._header.extend(data[start:end]),
            "on_header_value": lambda data, start, end: self._value.extend(data[start:end]),
            "on_header_end": self._header_end,
            "on_headers_finished": self._headers_finished,
            "on_part_data": self._part_data,
            "on_part_end": self._part_end,
            "on_end": self._end,
        }

    def _header_end(self) -> None:
        self._headers[self._header.decode("latin-1").lower()] = bytes(self._value)
        self._header.clear()
        self._value.clear()

    def _headers_finished(self) -> None:
        _, options = parse_options_header(self._headers.get("content-disposition", b""))
        self._name = options.get(b"name", b"").decode("utf-8", "replace")
        self._value.clear()
        self._in_file = self._name == "file"
        if not self._in_file:
            if self._name in self.fields or len(self.fields) >= MAX_FIELDS:
                raise InvalidInput(f"Form field {self._name[:64]!r} is one too many.", loc=("body", self._name[:64]))
            return
        if self.filename is not None:
            raise InvalidInput("One request carries one file.", loc=("body", "file"))
        self.filename = clean_filename(options.get(b"filename", b"").decode("utf-8", "replace"))
        declared = self._headers.get("content-type", b"").decode("latin-1").split(";")[0].strip().lower()
        self.declared_type = declared or None

    def _part_data(self, data: bytes, start: int, end: int) -> None:
        if self._in_file:
            self.size += end - start
            if self.size > self.limit:
                raise UploadTooLarge(f"The file is larger than {self.limit} bytes.", limit=self.limit)
            self.buffer += data[start:end]
        else:
            self._value += data[start:end]
            if len(self._value) > MAX_FIELD_BYTES:
                raise UploadTooLarge(f"Form field {self._name[:64]!r} is larger than {MAX_FIELD_BYTES} bytes.")

    def _part_end(self) -> None:
        if not self._in_file:
            try:
                self.fields[self._name] = self._value.decode("utf-8")
            except UnicodeDecodeError as exc:
                raise InvalidInput("Form fields must be UTF-8.", loc=("body", self._name[:64])) from exc
            self._value.clear()

    def _end(self) -> None:
        self.complete = True


@dataclass(slots=True)
class _Spool:
    """A temporary file that is written and hashed off the event loop."""

    file: IO[bytes]
    digest: "hashlib._Hash" = field(default_factory=hashlib.sha256)

    def add(self, data: bytes) -> None:
        self.file.write(data)
        self.digest.update(data)


@asynccontextmanager
async def receive(body: AsyncIterator[bytes], boundary: bytes, *, limit: int) -> AsyncIterator[ReceivedFile]:
    """Receive one multipart form with a part ``file``; the temporary file is gone when the block ends.

    Memory stays constant. Raises UploadTooLarge beyond ``limit`` bytes of file or OVERHEAD more of form, EmptyUpload,
    InvalidInput for a broken form.
    """
    sink = _Sink(limit)
    with tempfile.NamedTemporaryFile(prefix="carrel-upload-") as file:
        spool = _Spool(file)
        try:
            parser = MultipartParser(boundary, sink.callbacks())  # type: ignore[arg-type]  # wants a TypedDict
            seen = 0
            async for piece in body:
                seen += len(piece)
                if seen > limit + OVERHEAD:
                    raise UploadTooLarge(f"The form is larger than {limit + OVERHEAD} bytes.", limit=limit)
                parser.write(piece)
                if len(sink.buffer) >= _BUFFER:
                    await _flush(spool, sink)
            parser.finalize()
        except FormParserError as exc:
            raise InvalidInput("The multipart body is malformed.", loc=("body",)) from exc
        if not sink.complete:
            raise InvalidInput("The multipart body ended too early.", loc=("body",))
        if sink.filename is None:
            raise InvalidInput("The form has no part named 'file'.", loc=("body", "file"))
        await _flush(spool, sink)
        await asyncio.to_thread(file.flush)
        if sink.size == 0:
            raise EmptyUpload(loc=("body", "file"))
        yield ReceivedFile(
            path=Path(file.name),
            filename=sink.filename,
            declared_type=sink.declared_type,
            size=sink.size,
            sha256=spool.digest.digest(),
            fields=sink.fields,
        )


async def _flush(spool: _Spool, sink: _Sink) -> None:
    data = bytes(sink.buffer)
    sink.buffer.clear()
    await asyncio.to_thread(spool.add, data)


@asynccontextmanager
async def spool_text(text: str, *, filename: str, media_type: str) -> AsyncIterator[ReceivedFile]:
    """The same for a text that came inside a JSON body. Raises EmptyUpload, InvalidInput for a NUL character."""
    if "\0" in text:
        raise InvalidInput("The text holds a NUL character.", loc=("body", "text"))
    if not text.strip():
        raise EmptyUpload("The text is empty.", loc=("body", "text"))
    try:
        data = text.encode()
    except UnicodeEncodeError as exc:
        raise InvalidInput("The text holds a lone surrogate.", loc=("body", "text")) from exc
    with tempfile.NamedTemporaryFile(prefix="carrel-upload-") as file:
        spool = _Spool(file)
        await asyncio.to_thread(spool.add, data)
        await asyncio.to_thread(file.flush)
        yield ReceivedFile(Path(file.name), filename, media_type, len(data), spool.digest.digest(), {})
