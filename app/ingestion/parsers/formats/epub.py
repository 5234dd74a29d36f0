"""Parser of e-books in the formats EPUB 2 and 3: the chapters, which are XHTML pages, in the order of the spine."""

import posixpath
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import unquote

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats.html import add_fragment, close_empty_elements
from app.ingestion.parsers.formats.html.page_state import MarkupReport, list_markup_warnings, merge_reports
from app.ingestion.parsers.toolkit.archives import check_archive, read_member
from app.ingestion.parsers.toolkit.blocks import BlockList
from app.ingestion.parsers.toolkit.image_warnings import list_image_warnings
from app.ingestion.parsers.toolkit.safe_xml import Element, decode_xml, get_local_name, iter_texts, read_xml
from app.ingestion.parsers.toolkit.text_cleanup import clean_line
from app.ingestion.parsers.toolkit.titles import choose_title
from app.ingestion.types import Block, BlockKind, CorruptFile, EncryptedFile, ParsedDocument
from app.warnings import ServiceWarning, WarningCode

_CONTAINER, _ENCRYPTION = "META-INF/container.xml", "META-INF/encryption.xml"
# Books without protection may have obfuscated fonts, but their text is readable.
_FONT_OBFUSCATION = frozenset({"http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC"})
_PAGE_TYPES = frozenset({"application/xhtml+xml", "text/html", "text/x-oeb1-document"})
_TABLE_OF_CONTENTS_TYPE = "application/x-dtbncx+xml"


@dataclass(frozen=True, slots=True)
class _ManifestItem:
    """File of an EPUB book, as its manifest lists it.

    Attributes:
        member: Name of the member in the archive.
        media_type: Media type.
        properties: Properties, such as ``nav`` for the table of contents.
    """

    member: str
    media_type: str
    properties: frozenset[str]


def parse(path: Path, options: ParseOptions) -> ParsedDocument:
    """Parse an e-book. A chapter without a heading gets its title from the table of contents.

    Args:
        path: File to read.
        options: Options and limits.

    Returns:
        The blocks, chapter by chapter, with warnings about damaged chapters and about images, which are not read.

    Raises:
        CorruptFile: The archive is damaged, or no chapter can be read.
        EncryptedFile: The book has copy protection.
        TextTooLong: The book has more bytes or text than the limits allow.
    """
    check_archive(path)
    with zipfile.ZipFile(path) as archive:
        _refuse_protected(archive)
        package_name = _find_package_name(archive)
        package = _read_member_xml(archive, package_name)
        items = _read_manifest(package, posixpath.dirname(package_name))
        chapters = _list_chapters(package, items, posixpath.dirname(package_name))
        titles = _read_titles(archive, items)
        blocks, unread, reports = BlockList(options), 0, list[MarkupReport]()
        for chapter in chapters:
            try:
                markup = decode_xml(read_member(archive, chapter.member), encoding=None).text
            except CorruptFile:
                unread += 1
                continue
            reports.append(_add_chapter(markup, titles.get(chapter.member), blocks, options))
    if unread == len(chapters):
        raise CorruptFile("No chapter of the book can be read.")
    images = {item.member for item in items.values() if item.media_type.startswith("image/")}
    report = merge_reports(reports)
    # The manifest lists all images, so that those without an alternative text are not counted again.
    warnings = [*list_image_warnings(len(images)), *list_markup_warnings(replace(report, images=0))]
    if unread:
        message = f"{unread} of {len(chapters)} chapters are damaged and were not read."
        warnings.insert(0, ServiceWarning(WarningCode.CHAPTERS_NOT_READ, message, unread))
    return ParsedDocument(
        blocks.blocks,
        title=choose_title(_read_title(package), blocks.blocks),
        warnings=warnings,
        words_left_out=report.words_left_out,
    )


def _refuse_protected(archive: zipfile.ZipFile) -> None:
    if _ENCRYPTION not in archive.namelist():
        return
    methods = {
        element.get("Algorithm")
        for element in _read_member_xml(archive, _ENCRYPTION).iter()
        if get_local_name(element) == "EncryptionMethod" and get_local_name(element.getparent()) == "EncryptedData"
    }
    if methods - _FONT_OBFUSCATION:
        raise EncryptedFile("The book has copy protection; upload a copy without it.")


def _read_member_xml(archive: zipfile.ZipFile, name: str) -> Element:
    return read_xml(decode_xml(read_member(archive, name), encoding=None).text)


def _find_package_name(archive: zipfile.ZipFile) -> str:
    for element in _read_member_xml(archive, _CONTAINER).iter():
        if get_local_name(element) == "rootfile" and element.get("full-path"):
            return str(element.get("full-path"))
    raise CorruptFile("The book does not name its package document, which lists its parts.")


def _read_manifest(package: Element, folder: str) -> dict[str, _ManifestItem]:
    """Return the files of the manifest by id.

    Addresses are relative to the package document. ``read_member`` refuses an address outside of the archive.
    """
    items = {}
    for element in package.iter():
        if get_local_name(element) == "item" and element.get("href"):
            properties = frozenset((element.get("properties") or "").split())
            member = _resolve_member(folder, element.get("href"))
            items[element.get("id") or ""] = _ManifestItem(member, element.get("media-type") or "", properties)
    return items


def _resolve_member(folder: str, address: str) -> str:
    return posixpath.normpath(posixpath.join(folder, unquote(address.partition("#")[0])))


def _list_chapters(package: Element, items: Mapping[str, _ManifestItem], folder: str) -> list[_ManifestItem]:
    """Return the chapters in the order of the spine, or of the manifest if there is no spine, without duplicates.

    Tables of contents are left out, because the chapters repeat their titles. Raises CorruptFile if the book has no
    chapters.
    """
    names = [element.get("idref") for element in package.iter() if get_local_name(element) == "itemref"]
    listed = [items[name] for name in dict.fromkeys(names) if name in items] or list(items.values())
    pages = [item for item in listed if item.media_type in _PAGE_TYPES and "nav" not in item.properties]
    contents = _list_contents_pages(package, folder)
    chapters = [item for item in pages if item.member not in contents] or pages
    if not chapters:
        raise CorruptFile("The book has no chapters.")
    return list({item.member: item for item in chapters}.values())


def _list_contents_pages(package: Element, folder: str) -> set[str]:
    """Return the pages that the guide of an EPUB 2 book names as tables of contents, without a part of a page."""
    addresses = (
        element.get("href") or ""
        for element in package.iter()
        if get_local_name(element) == "reference" and (element.get("type") or "").lower() == "toc"
    )
    return {_resolve_member(folder, address) for address in addresses if address and "#" not in address}


def _read_titles(archive: zipfile.ZipFile, items: Mapping[str, _ManifestItem]) -> dict[str, str]:
    """Return the titles of members from the tables of contents of EPUB 2 and 3.

    The first title of a member counts. A damaged table of contents is ignored.
    """
    titles: dict[str, str] = {}
    for item in items.values():
        if "nav" in item.properties or item.media_type == _TABLE_OF_CONTENTS_TYPE:
            try:
                root = _read_member_xml(archive, item.member)
            except CorruptFile:
                continue
            for address, title in _list_entries(root):
                titles.setdefault(_resolve_member(posixpath.dirname(item.member), address), title)
    return titles


def _list_entries(root: Element) -> list[tuple[str, str]]:
    """Return the addresses and titles of a table of contents.

    In EPUB 3 an entry is a link. In EPUB 2 the label of an entry comes before its address.
    """
    entries, label = [], ""
    for element in root.iter():
        name = get_local_name(element)
        if name == "a" and element.get("href"):
            entries.append((element.get("href"), clean_line("".join(iter_texts(element)))))
        elif name == "text":
            label = clean_line("".join(iter_texts(element)))
        elif name == "content" and element.get("src"):
            entries.append((element.get("src"), label))
    return [(address, title) for address, title in entries if title]


def _add_chapter(markup: str, title: str | None, blocks: BlockList, options: ParseOptions) -> MarkupReport:
    chapter = BlockList(options)
    report = add_fragment(close_empty_elements(markup), chapter)
    has_heading = any(block.kind is BlockKind.HEADING for block in chapter.blocks)
    if title and chapter.blocks and not has_heading:
        blocks.add(BlockKind.HEADING, title, level=1)
    for block in chapter.blocks:
        _append_block(block, blocks)
    return report


def _append_block(block: Block, blocks: BlockList) -> None:
    blocks.add(block.kind, block.text, level=block.level)


def _read_title(package: Element) -> str | None:
    for element in package.iter():
        if get_local_name(element) == "title":
            return clean_line("".join(iter_texts(element))) or None
    return None
