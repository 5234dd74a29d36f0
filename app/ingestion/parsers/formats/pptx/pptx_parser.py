"""Parser of PowerPoint files (PPTX): title, text, tables, charts, SmartArt, notes and comments of each slide."""

import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats.pptx.slide_reader import SlideReader
from app.ingestion.parsers.toolkit.archives import check_archive
from app.ingestion.parsers.toolkit.blocks import BlockList, check_page_count
from app.ingestion.parsers.toolkit.ooxml import (
    Element,
    Package,
    find_child,
    get_attribute,
    get_tag,
    iter_children,
    iter_texts,
)
from app.ingestion.parsers.toolkit.text_cleanup import clean_line
from app.ingestion.parsers.toolkit.titles import choose_title
from app.ingestion.parsers.toolkit.unread_content import UnreadContent
from app.ingestion.types import BlockKind, CorruptFile, ParsedDocument
from app.warnings import ServiceWarning, WarningCode

_GENERIC_SECTION = re.compile(r"(default|untitled|standard|unbenannter?) ?(section|abschnitt)?", re.IGNORECASE)


def parse(path: Path, options: ParseOptions) -> ParsedDocument:
    """Parse a PowerPoint file: a presentation, a show or a template, with or without macros.

    Slide titles become headings of level 1; speaker notes and comments become notes. Hidden slides are read.

    Args:
        path: File to read.
        options: Options and limits.

    Returns:
        The blocks, slide by slide. The title comes from the file's properties, else from the first slide title.

    Raises:
        CorruptFile: The file is damaged, and no slide can be read.
        EncryptedFile: The file is encrypted.
        TooManyPages: The file has more slides than the limit allows.
        TextTooLong: The file unpacks to more bytes, or has more text, than the limits allow.
    """
    check_archive(path)
    with zipfile.ZipFile(path) as archive:
        package = Package(archive)
        reader = _PptxReader(package, package.find_main_part(), options)
        reader.read_slides()
        title = package.read_title()
        warnings = reader.list_warnings()
    return ParsedDocument(
        reader.blocks.blocks,
        title=choose_title(title, reader.blocks.blocks),
        page_count=reader.slide_count,
        warnings=warnings,
        images=reader.images,
    )


class _PptxReader:
    """Reader of the slides of a presentation, in the order of the show."""

    def __init__(self, package: Package, main: str, options: ParseOptions) -> None:
        self.blocks = BlockList(options)
        self._package = package
        self._options = options
        self._root = package.parse_part(main)
        if get_tag(self._root) != "p:presentation":
            raise CorruptFile
        self._targets = {link.id: link.target for link in package.list_relationships(main)}
        self._unread = UnreadContent()
        self._reader = SlideReader(package, self.blocks, options, self._unread)
        self._slides = list(iter_children(find_child(self._root, "p:sldIdLst"), "p:sldId"))
        self._damaged_count = 0
        self._hidden_count = 0
        self.slide_count = len(self._slides)
        self.images = self._reader.images.images

    def read_slides(self) -> None:
        """Read all slides. Raises CorruptFile if all of them are damaged."""
        check_page_count(self.slide_count, self._options)
        sections = self._read_sections()
        for number, slide in enumerate(self._slides, start=1):
            self._options.on_progress(number, self.slide_count)
            try:
                self._read_slide(slide, number, sections.get(_get_slide_id(slide), ""))
            except CorruptFile:
                self._damaged_count += 1
        if self._damaged_count and not self.blocks.blocks:
            raise CorruptFile

    def list_warnings(self) -> list[ServiceWarning]:
        """Return the warnings about damaged and hidden slides, and about the content that was not read."""
        warnings = []
        if count := self._damaged_count:
            are = "is" if count == 1 else "are"
            message = (
                f"{count} of {self.slide_count} slides {are} damaged and {'was' if count == 1 else 'were'} not read."
            )
            warnings.append(ServiceWarning(WarningCode.SLIDES_PARTLY_READ, message, count))
        self._unread.image_count += self._reader.images.skipped_count
        self._unread.add(WarningCode.DAMAGED_PARTS_NOT_READ, self._package.damaged_count)
        warnings += self._unread.list_warnings()
        if count := self._hidden_count:
            message = f"{count} hidden slides were read." if count > 1 else "1 hidden slide was read."
            warnings.append(ServiceWarning(WarningCode.HIDDEN_SLIDES_READ, message))
        return warnings

    def _read_slide(self, slide: Element, number: int, section: str) -> None:
        part = self._targets.get(_get_relationship_id(slide))
        if part is None:
            raise CorruptFile
        root = self._package.parse_part(part)
        self._hidden_count += get_attribute(root, "show") in ("0", "false")
        self._reader.read_slide(root, part, number, section)
        for link in self._package.list_relationships(part):
            if link.kind == "notesSlide":
                notes = self._package.parse_optional_part(link.target)
                if notes is not None:
                    self._reader.read_notes(notes, link.target, number)
        for link in self._package.list_relationships(part):
            if link.kind == "comments":
                for comment in _iter_comments(self._package.parse_optional_part(link.target)):
                    self.blocks.add(BlockKind.NOTE, comment, slide=number)

    def _read_sections(self) -> dict[str, str]:
        """Return the names of sections by the id of their first slide, without the default names."""
        names: dict[str, str] = {}
        for element in self._root.iter("{*}section"):
            name = clean_line(get_attribute(element, "name"))
            first = next(element.iter("{*}sldId"), None)
            if first is not None and not _GENERIC_SECTION.fullmatch(name):
                names[_get_slide_id(first)] = name
        return names


def _get_slide_id(element: Element) -> str:
    return str(element.get("id", ""))


def _get_relationship_id(element: Element) -> str:
    """Return the id of the relationship, which is the attribute ``id`` with a namespace."""
    return next((str(value) for key, value in element.items() if key.endswith("}id")), "")


def _iter_comments(root: Element | None) -> Iterator[str]:
    """Yield the comments on a slide and the replies to them, in the older and the newer comment format."""
    for element in root.iter() if root is not None else ():
        if get_tag(element) == "p:text":
            yield element.text or ""
        elif get_tag(element) == "p188:txBody":
            yield "\n".join("".join(iter_texts(paragraph, "a:t")) for paragraph in iter_children(element, "a:p"))
