"""Properties of an Outlook message, of its recipients and of its attachments ([MS-OXMSG], section 2.4)."""

import struct
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

from app.ingestion.parsers.toolkit.character_decoding import decode_text
from app.ingestion.parsers.toolkit.code_pages import find_codec
from app.ingestion.parsers.toolkit.compound_files import CompoundFile, Storage

MESSAGE_CLASS, SUBJECT, DATE, DELIVERY_DATE = 0x001A, 0x0037, 0x0039, 0x0E06
SENDER_NAME, SENDER_ADDRESS, SENDER_SMTP = 0x0C1A, 0x0C1F, 0x5D01
DISPLAY_TO, DISPLAY_CC = 0x0E04, 0x0E03
BODY, HTML, COMPRESSED_RTF = 0x1000, 0x1013, 0x1009
RECIPIENT_TYPE, NAME, ADDRESS, SMTP_ADDRESS = 0x0C15, 0x3001, 0x3003, 0x39FE
LONG_FILENAME, FILENAME, ATTACH_METHOD, ATTACH_DATA = 0x3707, 0x3704, 0x3705, 0x3701
_MESSAGE_CODE_PAGE, _INTERNET_CODE_PAGE = 0x3FFD, 0x3FDE
PROPERTIES = "__properties_version1.0"
_UNICODE, _STRING8, _BINARY, _LONG, _TIME = 0x001F, 0x001E, 0x0102, 0x0003, 0x0040
_HEADER_BYTES = {"message": 32, "attached": 24, "part": 8}
_MAX_PROPERTIES = 10_000
_EPOCH = datetime(1601, 1, 1, tzinfo=UTC)


class Properties:
    """Properties of one object.

    Args:
        file: The file.
        storage: Storage of the object.
        kind: ``message`` for the outermost message, ``attached`` for an attached one, ``part`` for another object.
        codec: Code page of texts that are not Unicode; empty to use that of the object.
    """

    def __init__(self, file: CompoundFile, storage: Storage, kind: str, codec: str = "") -> None:
        self._file = file
        self._storage = storage
        self._fixed: dict[int, bytes] = {}
        number = storage.streams.get(PROPERTIES)
        data = file.read_stream(number) if number is not None else b""
        for start in range(_HEADER_BYTES[kind], min(len(data), 16 * _MAX_PROPERTIES) - 15, 16):
            (tag,) = struct.unpack_from("<I", data, start)
            self._fixed[tag] = data[start + 8 : start + 16]
        self.codec = codec or find_codec(self.get_number(_MESSAGE_CODE_PAGE) or self.get_number(_INTERNET_CODE_PAGE))
        self.internet_codec = find_codec(self.get_number(_INTERNET_CODE_PAGE) or None)

    def get_number(self, identifier: int) -> int:
        """Return a number; 0 if there is none."""
        value = self._fixed.get(identifier << 16 | _LONG)
        return int(struct.unpack("<I", value[:4])[0]) if value else 0

    def get_date(self, identifier: int) -> str:
        """Return a date as mails have it; empty if there is none or it is out of range."""
        value = self._fixed.get(identifier << 16 | _TIME)
        ticks = int(struct.unpack("<Q", value)[0]) if value else 0
        if not ticks:
            return ""
        try:
            return format_datetime(_EPOCH + timedelta(microseconds=ticks // 10))
        except (OverflowError, ValueError):
            return ""

    def get_text(self, identifier: int) -> str:
        """Return a text; empty if there is none."""
        data = self._read(identifier, _UNICODE)
        if data:
            return data.decode("utf-16-le", "replace").rstrip("\0")
        data = self._read(identifier, _STRING8).rstrip(b"\0")
        return decode_text(data, encoding=None, declared_encoding=self.codec).text if data else ""

    def get_bytes(self, identifier: int) -> bytes:
        """Return binary data; empty if there is none."""
        return self._read(identifier, _BINARY)

    def _read(self, identifier: int, kind: int) -> bytes:
        number = self._storage.streams.get(f"__substg1.0_{identifier:04x}{kind:04x}")
        return self._file.read_stream(number) if number is not None else b""
