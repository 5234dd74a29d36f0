"""Parts of an OpenDocument file: members of an archive, or elements of one XML file."""

import posixpath
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from app.ingestion.parsers.formats.odf.names import expand_name, get_name
from app.ingestion.parsers.toolkit.archives import check_archive, read_member
from app.ingestion.parsers.toolkit.safe_xml import Element, decode_xml, read_xml
from app.ingestion.parsers.toolkit.text_cleanup import clean_line
from app.ingestion.types import CorruptFile, EncryptedFile

_CONTENT = "content.xml"
_MANIFEST = "META-INF/manifest.xml"
_ZIP_SIGNATURE = b"PK"


class OdfPackage:
    """Parts of an OpenDocument file.

    Args:
        path: The file.

    Attributes:
        archive: The archive; None if the file is one XML file.
        names: Names of the members of the archive.

    Raises:
        CorruptFile: The file is damaged, or has no content.
        EncryptedFile: The file has a password.
        TextTooLong: The file unpacks to more bytes than the limits allow.
    """

    def __init__(self, path: Path) -> None:
        self.archive: zipfile.ZipFile | None = None
        with path.open("rb") as file:
            is_packed = file.read(2) == _ZIP_SIGNATURE
        self._path = path
        self._flat_root: Element | None = None
        self.names: set[str] = set()
        if not is_packed:
            return
        check_archive(path)
        self.archive = zipfile.ZipFile(path)
        self.names = set(self.archive.namelist())
        if _is_encrypted(self.archive):
            raise EncryptedFile
        if _CONTENT not in self.names:
            raise CorruptFile("The file has no content; upload an intact copy.")

    def close(self) -> None:
        """Close the archive."""
        if self.archive is not None:
            self.archive.close()

    def read_part(self, name: str) -> Element | None:
        """Return the root element of a part; None if the file has no such part.

        Args:
            name: Name of the part, such as ``content.xml``. A file of one XML file has all parts in its root element.

        Raises:
            CorruptFile: The part is damaged.
            TextTooLong: The part is too large.
        """
        if self.archive is None:
            if self._flat_root is None:
                self._flat_root = read_xml(decode_xml(self._path.read_bytes(), encoding=None).text)
            return self._flat_root
        if name not in self.names:
            return None
        return read_xml(decode_xml(read_member(self.archive, name), encoding=None).text)

    @contextmanager
    def open_content(self) -> Iterator[IO[bytes]]:
        """Open the part with the content, for reading it piece by piece."""
        with self._path.open("rb") if self.archive is None else self.archive.open(_CONTENT) as file:
            yield file

    def find_body(self, content: Element, kind: str) -> Element:
        """Return the element with the content, such as ``office:text``. Raises CorruptFile if there is none."""
        body = content.find(f"{expand_name('office:body')}/{expand_name(kind)}")
        if body is None:
            raise CorruptFile("The file has no content; upload an intact copy.")
        return body

    def read_title(self) -> str:
        """Return the title in the properties of the file; empty if there is none."""
        if self.archive is None and self._flat_root is None:
            return ""
        meta = self.read_part("meta.xml")
        element = meta.find(f".//{expand_name('office:meta')}/{expand_name('dc:title')}") if meta is not None else None
        return "" if element is None else clean_line(element.text or "")

    def read_object(self, address: str) -> Element | None:
        """Return the root element of an embedded object; None if it is no XML object or is missing."""
        name = _normalize_address(address)
        for member in (f"{name}/content.xml", name):
            if self.archive is not None and member in self.names:
                try:
                    return self.read_part(member)
                except CorruptFile:
                    return None
        return None

    def read_data(self, address: str) -> bytes:
        """Return the bytes of an image in the archive; empty if it is missing or damaged."""
        name = _normalize_address(address)
        if self.archive is None or name not in self.names:
            return b""
        try:
            return read_member(self.archive, name)
        except CorruptFile:
            return b""


def _is_encrypted(archive: zipfile.ZipFile) -> bool:
    """Return whether the manifest of an archive lists encrypted members. Raises CorruptFile, TextTooLong."""
    if _MANIFEST not in archive.namelist():
        return False
    manifest = read_xml(decode_xml(read_member(archive, _MANIFEST), encoding=None).text)
    return any(get_name(element).endswith("encryption-data") for element in manifest.iter())


def _normalize_address(address: str) -> str:
    return posixpath.normpath(address.split("#")[0]).lstrip("./") if address else ""
