"""EPUB: the chapters of a book in the order of its spine, each an XHTML page; OCF and OPF of EPUB 2 and 3."""

import posixpath
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.archives import check_archive, read_member
from app.ingestion.parsers.blocks import BlockList
from app.ingestion.parsers.cleaning import clean_line
from app.ingestion.parsers.drawings import pictures_warning
from app.ingestion.parsers.html import add_fragment, as_html
from app.ingestion.parsers.xml_reading import Element, decode_xml, local_name, read_xml, texts_of
from app.ingestion.types import Block, BlockKind, Corrupt, Encrypted, ParsedDocument

_CONTAINER, _ENCRYPTION = "META-INF/container.xml", "META-INF/encryption.xml"
# Fonts are scrambled in books that anybody may read; their text is not.
_FONT_OBFUSCATION = frozenset({"http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC"})
_PAGES = frozenset({"application/xhtml+xml", "text/html", "text/x-oeb1-document"})
_TABLE_OF_CONTENTS = "application/x-dtbncx+xml"


@dataclass(frozen=True, slots=True)
class _Item:
    """One file of the book: its member name, media type and properties."""

    member: str
    media_type: str
    properties: frozenset[str]


def parse(path: Path, options: ParseOptions) -> ParsedDocument:
    """A chapter that has no heading of its own takes its title from the table of contents.

    Raises Corrupt, Encrypted for a protected book, TooMuchText.
    """
    check_archive(path)
    with zipfile.ZipFile(path) as archive:
        _refuse_protected(archive)
        package_name = _package_name(archive)
        package = _read(archive, package_name)
        items = _items(package, posixpath.dirname(package_name))
        chapters = _chapters(package, items)
        titles = _titles(archive, items)
        blocks, unread = BlockList(options), 0
        for chapter in chapters:
            try:
                markup = decode_xml(read_member(archive, chapter.member), encoding=None).text
            except Corrupt:
                unread += 1
                continue
            _add_chapter(markup, titles.get(chapter.member), blocks, options)
    if unread == len(chapters):
        raise Corrupt("No chapter of the book can be read.")
    warnings = [f"{unread} of {len(chapters)} chapters are damaged and were not read."] if unread else []
    pictures = {item.member for item in items.values() if item.media_type.startswith("image/")}
    warnings += pictures_warning(len(pictures))
    return ParsedDocument(blocks.blocks, title=_title(package) or blocks.first_heading(), warnings=warnings)


def _refuse_protected(archive: zipfile.ZipFile) -> None:
    if _ENCRYPTION not in archive.namelist():
        return
    methods = {
        element.get("Algorithm")
        for element in _read(archive, _ENCRYPTION).iter()
        if local_name(element) == "EncryptionMethod" and local_name(element.getparent()) == "EncryptedData"
    }
    if methods - _FONT_OBFUSCATION:
        raise Encrypted("The book is protected; upload a copy without protection.")


def _read(archive: zipfile.ZipFile, name: str) -> Element:
    return read_xml(decode_xml(read_member(archive, name), encoding=None).text)


def _package_name(archive: zipfile.ZipFile) -> str:
    for element in _read(archive, _CONTAINER).iter():
        if local_name(element) == "rootfile" and element.get("full-path"):
            return str(element.get("full-path"))
    raise Corrupt("The book has no list of its parts.")


def _items(package: Element, folder: str) -> dict[str, _Item]:
    """The manifest by id. Addresses are relative to the package; one that leads out is refused when it is read."""
    found = {}
    for element in package.iter():
        if local_name(element) == "item" and element.get("href"):
            properties = frozenset((element.get("properties") or "").split())
            member = _member(folder, element.get("href"))
            found[element.get("id") or ""] = _Item(member, element.get("media-type") or "", properties)
    return found


def _member(folder: str, address: str) -> str:
    return posixpath.normpath(posixpath.join(folder, unquote(address.partition("#")[0])))


def _chapters(package: Element, items: Mapping[str, _Item]) -> list[_Item]:
    """In the spine's order, none twice; without a spine, in the manifest's. Raises Corrupt for none at all."""
    names = [element.get("idref") for element in package.iter() if local_name(element) == "itemref"]
    listed = [items[name] for name in dict.fromkeys(names) if name in items] or list(items.values())
    chapters = [item for item in listed if item.media_type in _PAGES and "nav" not in item.properties]
    if not chapters:
        raise Corrupt("The book has no chapters.")
    return list({item.member: item for item in chapters}.values())


def _titles(archive: zipfile.ZipFile, items: Mapping[str, _Item]) -> dict[str, str]:
    """The first title that a table of contents, new or old, has for each member; none where it cannot be read."""
    found: dict[str, str] = {}
    for item in items.values():
        if "nav" in item.properties or item.media_type == _TABLE_OF_CONTENTS:
            try:
                root = _read(archive, item.member)
            except Corrupt:
                continue
            for address, title in _entries(root):
                found.setdefault(_member(posixpath.dirname(item.member), address), title)
    return found


def _entries(root: Element) -> list[tuple[str, str]]:
    """Links of an EPUB 3 navigation page; points of an EPUB 2 table, whose label comes before their address."""
    found, label = [], ""
    for element in root.iter():
        name = local_name(element)
        if name == "a" and element.get("href"):
            found.append((element.get("href"), clean_line("".join(texts_of(element)))))
        elif name == "text":
            label = clean_line("".join(texts_of(element)))
        elif name == "content" and element.get("src"):
            found.append((element.get("src"), label))
    return [(address, title) for address, title in found if title]


def _add_chapter(markup: str, title: str | None, blocks: BlockList, options: ParseOptions) -> None:
    chapter = BlockList(options)
    add_fragment(as_html(markup), chapter)
    headed = any(block.kind is BlockKind.HEADING for block in chapter.blocks)
    if title and chapter.blocks and not headed:
        blocks.add(BlockKind.HEADING, title, level=1)
    for block in chapter.blocks:
        _append(block, blocks)


def _append(block: Block, blocks: BlockList) -> None:
    blocks.add(block.kind, block.text, level=block.level)


def _title(package: Element) -> str | None:
    for element in package.iter():
        if local_name(element) == "title":
            return clean_line("".join(texts_of(element))) or None
    return None
