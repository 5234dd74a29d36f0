"""Reception of uploads: a streamed body is written to temporary files, and counted and hashed during its arrival."""

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
    """Return a safe filename.

    The result is the last component of the name, printable, and at most 255 characters long. Characters that change the
    direction of writing are not printable. A device name of Windows gets the prefix ``_``.

    Args:
        name: The name from the client, with Unix or Windows separators.

    Returns:
        The name, or ``upload`` if no characters are left.
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
    """A file of the form: its headers, and the bytes written to disk so far."""

    path: Path
    filename: str
    declared_type: str | None
    size: int = 0
    digest: "hashlib._Hash" = field(default_factory=hashlib.sha256)

    def write(self, data: bytes) -> None:
        """Append bytes to the file. The call blocks."""
        with open(self.path, "ab", opener=open_private_file) as file:
            file.write(data)
        self.digest.update(data)

    def to_received_file(self) -> ReceivedFile:
        """Return the complete file."""
        return ReceivedFile(self.path, self.filename, self.declared_type, self.size, self.digest.digest())


@dataclass(slots=True)
class _FormSink:
    """Receiver of the multipart parser's callbacks. It keeps small fields in memory and buffers the bytes of files."""

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
        """Return the callbacks for MultipartParser."""
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
        """Write the buffer to disk in a thread."""
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
            raise InvalidInputError(
                f"Form field {self._name[:64]!r} is repeated, or exceeds the {MAX_FIELDS} fields of a form. Remove it.",
                loc=("body", self._name[:64]),
            )

    def _begin_file(self, filename: str) -> None:
        if len(self.parts) >= self.max_files:
            allowed = "one file" if self.max_files == 1 else f"at most {self.max_files} files"
            raise InvalidInputError(f"One request accepts {allowed}. Split the upload.", loc=("body", "file"))
        declared = self._headers.get("content-type", b"").decode("latin-1").split(";")[0].strip().lower()
        part = _FilePart(self.folder / str(len(self.parts)), clean_filename(filename), declared or None)
        self.parts.append(part)
        self.pending.append((part, b""))

    def _on_part_data(self, data: bytes, start: int, end: int) -> None:
        if self._in_file:
            self.parts[-1].size += end - start
            self.size += end - start
            if self.size > self.max_bytes:
                subject = "file is" if self.max_files == 1 else "files of the form together are"
                message = f"The {subject} larger than {self.max_bytes} bytes. Upload less in one request."
                raise UploadTooLarge(message, limit=self.max_bytes)
            self.pending.append((self.parts[-1], data[start:end]))
            self.buffered += end - start
        else:
            self._value += data[start:end]
            if len(self._value) > MAX_FIELD_BYTES:
                raise UploadTooLarge(
                    f"Form field {self._name[:64]!r} is larger than {MAX_FIELD_BYTES} bytes. Shorten its value."
                )

    def _on_part_end(self) -> None:
        if not self._in_file:
            try:
                self.fields[self._name] = self._value.decode("utf-8")
            except UnicodeDecodeError as exc:
                raise InvalidInputError(
                    "The form field is not UTF-8. Encode its value as UTF-8.", loc=("body", self._name[:64])
                ) from exc
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
    """Receive a multipart form with parts named ``file``, and delete the temporary files when the block ends.

    The files are streamed to disk, so memory stays constant.

    Args:
        body: The request's body.
        boundary: The boundary of the parts, from the request's content type.
        max_bytes: The maximum size of all files together. The rest of the form may have ``MAX_FORM_OVERHEAD_BYTES``.
        max_files: The maximum number of files.

    Raises:
        UploadTooLarge: The files or the form are larger than the limit.
        InvalidInputError: The form is malformed, has no file or has more than ``max_files`` files.
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
                        f"The form is larger than {max_bytes + MAX_FORM_OVERHEAD_BYTES} bytes. Upload less at once.",
                        limit=max_bytes,
                    )
                parser.write(piece)
                if sink.buffered >= _BUFFER_BYTES:
                    await sink.flush()
            parser.finalize()
        except FormParserError as exc:
            raise InvalidInputError(
                "The multipart body is malformed. Check the boundary and the headers of each part.", loc=("body",)
            ) from exc
        if not sink.is_complete:
            raise InvalidInputError("The multipart body ended too early. Send the request again.", loc=("body",))
        if not sink.parts:
            raise InvalidInputError(
                "The form has no part named 'file'. Add the file under this name.", loc=("body", "file")
            )
        await sink.flush()
        yield ReceivedForm([part.to_received_file() for part in sink.parts], sink.fields)


@asynccontextmanager
async def spool_text(text: str, *, filename: str, media_type: str | None) -> AsyncIterator[ReceivedFile]:
    """Write a text from a JSON body to a temporary file, and delete the file when the block ends.

    Args:
        text: The text.
        filename: The name of the file.
        media_type: The media type. None detects Markdown by its headings, and otherwise uses plain text.

    Raises:
        EmptyUpload: The text has no visible characters.
        InvalidInputError: The text contains a NUL character or a lone surrogate.
    """
    with create_temp_directory("upload") as folder:
        # A scan of 16 million characters takes up to 0.1 seconds, so every scan runs in a thread and not in the event
        # loop.
        yield await asyncio.to_thread(_write_text, folder / "0", text, filename, media_type)


def _write_text(path: Path, text: str, filename: str, media_type: str | None) -> ReceivedFile:
    if "\0" in text:
        raise InvalidInputError("The text contains a NUL character. Remove it.", loc=("body", "text"))
    if not text or text.isspace():
        raise EmptyUpload("The text is empty. Send at least one visible character.", loc=("body", "text"))
    try:
        data = text.encode()
    except UnicodeEncodeError as exc:
        raise InvalidInputError(
            "The text contains a lone surrogate. Replace it with a valid character.", loc=("body", "text")
        ) from exc
    part = _FilePart(path, filename, media_type or guess_text_type(text), len(data))
    part.write(data)
    return part.to_received_file()
