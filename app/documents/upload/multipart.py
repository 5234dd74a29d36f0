"""Receive an upload: a streamed body into temporary files, counted and hashed on the way."""

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from pathlib import Path, PurePosixPath, PureWindowsPath

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from app.documents.types import EmptyUpload, ReceivedFile, ReceivedForm, UploadTooLarge
from app.documents.upload.text_formats import guess_text_type
from app.errors import InvalidInputError
from app.temp_files import create_temp_directory, open_private_file

MAX_FIELD_BYTES = 64 * 1024
MAX_FIELDS = 32
MAX_FILENAME_LENGTH = 255
MAX_FORM_OVERHEAD_BYTES = 1024 * 1024
_BUFFER_BYTES = 1024 * 1024
_DEVICE = re.compile(r"(CON|PRN|AUX|NUL|CONIN\$|CONOUT\$|(COM|LPT)[0-9¹²³]) *(\..*)?", re.IGNORECASE)


def clean_filename(name: str) -> str:
    """The last component of the name, printable, at most 255 characters; ``upload`` if nothing is left.

    Signs that turn the direction of writing are not printable. A name that Windows keeps for a device gets a ``_``.
    """
    name = PureWindowsPath(PurePosixPath(name).name).name
    name = "".join(char for char in name if char.isprintable()).strip().strip(".")
    if _DEVICE.fullmatch(name):
        name = f"_{name}"
    if len(name) > MAX_FILENAME_LENGTH:
        stem, dot, suffix = name.rpartition(".")
        stem_length = MAX_FILENAME_LENGTH - len(suffix) - 1
        name = f"{stem[:stem_length]}.{suffix}" if dot and stem_length > 0 else name[:MAX_FILENAME_LENGTH]
    return name or "upload"


@dataclass(slots=True, eq=False)
class _FilePart:
    """A file of the form: what its headers say, and its bytes on the disk so far."""

    path: Path
    filename: str
    declared_type: str | None
    size: int = 0
    digest: "hashlib._Hash" = field(default_factory=hashlib.sha256)

    def write(self, data: bytes) -> None:
        """Append; blocking."""
        with open(self.path, "ab", opener=open_private_file) as file:
            file.write(data)
        self.digest.update(data)

    def to_received_file(self) -> ReceivedFile:
        """It is whole."""
        return ReceivedFile(self.path, self.filename, self.declared_type, self.size, self.digest.digest())


@dataclass(slots=True)
class _FormSink:
    """Collects what the multipart parser's callbacks yield: small fields in memory, the files' bytes in a buffer."""

    folder: Path
    max_bytes: int
    max_files: int
    fields: dict[str, str] = field(default_factory=dict)
    parts: list[_FilePart] = field(default_factory=list)
    pending: list[tuple[_FilePart, bytes]] = field(default_factory=list)
    buffered: int = 0
    size: int = 0
    is_complete: bool = False
    _header: bytearray = field(default_factory=bytearray)
    _value: bytearray = field(default_factory=bytearray)
    _headers: dict[str, bytes] = field(default_factory=dict)
    _name: str = ""
    _in_file: bool = False

    def build_callbacks(self) -> dict[str, object]:
        """What MultipartParser calls."""
        return {
            "on_part_begin": self._headers.clear,
            "on_header_field": lambda data, start, end: self._header.extend(data[start:end]),
            "on_header_value": lambda data, start, end: self._value.extend(data[start:end]),
            "on_header_end": self._on_header_end,
            "on_headers_finished": self._on_headers_finished,
            "on_part_data": self._on_part_data,
            "on_part_end": self._on_part_end,
            "on_end": self._on_end,
        }

    async def flush(self) -> None:
        """Write what is in the buffer to disk, off the event loop."""
        pending, self.pending, self.buffered = self.pending, [], 0
        if pending:
            await asyncio.to_thread(_write_parts, pending)

    def _on_header_end(self) -> None:
        self._headers[self._header.decode("latin-1").lower()] = bytes(self._value)
        self._header.clear()
        self._value.clear()

    def _on_headers_finished(self) -> None:
        _, options = parse_options_header(self._headers.get("content-disposition", b""))
        self._name = options.get(b"name", b"").decode("utf-8", "replace")
        self._value.clear()
        self._in_file = self._name == "file"
        if self._in_file:
            self._begin_file(options.get(b"filename", b"").decode("utf-8", "replace"))
        elif self._name in self.fields or len(self.fields) >= MAX_FIELDS:
            raise InvalidInputError(f"Form field {self._name[:64]!r} is one too many.", loc=("body", self._name[:64]))

    def _begin_file(self, filename: str) -> None:
        if len(self.parts) >= self.max_files:
            allowed = "one file" if self.max_files == 1 else f"at most {self.max_files} files"
            raise InvalidInputError(f"One request carries {allowed}.", loc=("body", "file"))
        declared = self._headers.get("content-type", b"").decode("latin-1").split(";")[0].strip().lower()
        part = _FilePart(self.folder / str(len(self.parts)), clean_filename(filename), declared or None)
        self.parts.append(part)
        self.pending.append((part, b""))

    def _on_part_data(self, data: bytes, start: int, end: int) -> None:
        if self._in_file:
            self.parts[-1].size += end - start
            self.size += end - start
            if self.size > self.max_bytes:
                subject = "file is" if self.max_files == 1 else "files together are"
                raise UploadTooLarge(f"The {subject} larger than {self.max_bytes} bytes.", limit=self.max_bytes)
            self.pending.append((self.parts[-1], data[start:end]))
            self.buffered += end - start
        else:
            self._value += data[start:end]
            if len(self._value) > MAX_FIELD_BYTES:
                raise UploadTooLarge(f"Form field {self._name[:64]!r} is larger than {MAX_FIELD_BYTES} bytes.")

    def _on_part_end(self) -> None:
        if not self._in_file:
            try:
                self.fields[self._name] = self._value.decode("utf-8")
            except UnicodeDecodeError as exc:
                raise InvalidInputError("Form fields must be UTF-8.", loc=("body", self._name[:64])) from exc
            self._value.clear()

    def _on_end(self) -> None:
        self.is_complete = True


def _write_parts(pending: list[tuple[_FilePart, bytes]]) -> None:
    for part, pieces in groupby(pending, key=itemgetter(0)):
        part.write(b"".join(piece for _, piece in pieces))


@asynccontextmanager
async def receive_form(
    body: AsyncIterator[bytes], boundary: bytes, *, max_bytes: int, max_files: int = 1
) -> AsyncIterator[ReceivedForm]:
    """Receive one multipart form with parts named ``file``; the temporary files are gone when the block ends.

    Memory stays constant. Raises UploadTooLarge beyond ``max_bytes`` bytes of files or OVERHEAD more of form,
    InvalidInputError for a broken form or one without a file, and for more than ``max_files``.
    """
    with create_temp_directory("upload") as folder:
        sink = _FormSink(folder, max_bytes, max_files)
        try:
            parser = MultipartParser(boundary, sink.build_callbacks())  # type: ignore[arg-type]  # wants a TypedDict
            received_bytes = 0
            async for piece in body:
                received_bytes += len(piece)
                if received_bytes > max_bytes + MAX_FORM_OVERHEAD_BYTES:
                    raise UploadTooLarge(
                        f"The form is larger than {max_bytes + MAX_FORM_OVERHEAD_BYTES} bytes.", limit=max_bytes
                    )
                parser.write(piece)
                if sink.buffered >= _BUFFER_BYTES:
                    await sink.flush()
            parser.finalize()
        except FormParserError as exc:
            raise InvalidInputError("The multipart body is malformed.", loc=("body",)) from exc
        if not sink.is_complete:
            raise InvalidInputError("The multipart body ended too early.", loc=("body",))
        if not sink.parts:
            raise InvalidInputError("The form has no part named 'file'.", loc=("body", "file"))
        await sink.flush()
        yield ReceivedForm([part.to_received_file() for part in sink.parts], sink.fields)


@asynccontextmanager
async def spool_text(text: str, *, filename: str, media_type: str | None) -> AsyncIterator[ReceivedFile]:
    """The same for a text that came inside a JSON body; without a media type a line like ``# Title`` makes it Markdown.

    Raises EmptyUpload, InvalidInputError for a NUL character.
    """
    with create_temp_directory("upload") as folder:
        # Each look at 16 million characters takes up to a tenth of a second: none of them is the event loop's.
        yield await asyncio.to_thread(_write_text, folder / "0", text, filename, media_type)


def _write_text(path: Path, text: str, filename: str, media_type: str | None) -> ReceivedFile:
    if "\0" in text:
        raise InvalidInputError("The text holds a NUL character.", loc=("body", "text"))
    if not text or text.isspace():
        raise EmptyUpload("The text is empty.", loc=("body", "text"))
    try:
        data = text.encode()
    except UnicodeEncodeError as exc:
        raise InvalidInputError("The text holds a lone surrogate.", loc=("body", "text")) from exc
    part = _FilePart(path, filename, media_type or guess_text_type(text), len(data))
    part.write(data)
    return part.to_received_file()
