"""Parser of OpenDocument texts (ODT): headings, paragraphs, lists, tables, shapes and notes in reading order."""

from collections.abc import Iterable
from pathlib import Path

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats.odf.content import ContentReader, OdfItem
from app.ingestion.parsers.formats.odf.forms import read_controls
from app.ingestion.parsers.formats.odf.names import get_name
from app.ingestion.parsers.formats.odf.package import OdfPackage
from app.ingestion.parsers.formats.odf.styles import OdfStyles
from app.ingestion.parsers.toolkit.blocks import BlockList
from app.ingestion.parsers.toolkit.image_list import ImageList
from app.ingestion.parsers.toolkit.page_numbers import is_page_number
from app.ingestion.parsers.toolkit.safe_xml import Element
from app.ingestion.parsers.toolkit.text_cleanup import clean_text
from app.ingestion.parsers.toolkit.titles import choose_title
from app.ingestion.parsers.toolkit.unread_content import UnreadContent
from app.ingestion.types import BlockKind, ParsedDocument

_HEADERS = frozenset({"style:header", "style:header-left", "style:header-first"})
_FOOTERS = frozenset({"style:footer", "style:footer-left", "style:footer-first"})


def parse(path: Path, options: ParseOptions) -> ParsedDocument:
    """Parse an OpenDocument text. Deleted text is left out, and inserted text is read.

    Footnotes, endnotes and comments become notes after their paragraph. The text of all page headers comes first, and
    the text of all page footers last, without repetitions and page numbers.

    Args:
        path: File to read.
        options: Options and limits.

    Returns:
        The blocks in reading order. The title comes from the file's properties, else from the first heading of level 1.

    Raises:
        CorruptFile: The file is damaged, or has no text.
        EncryptedFile: The file has a password.
        TextTooLong: A table is too large, or the file has more bytes or text than the limits allow.
    """
    package = OdfPackage(path)
    try:
        content, styles = package.read_part("content.xml"), package.read_part("styles.xml")
        body = package.find_body(content, "office:text")
        reader = ContentReader(package, OdfStyles(styles, content), read_controls(content))
        blocks = BlockList(options)
        images = ImageList(blocks, options)
        _add_margin(_HEADERS, styles, reader, blocks)
        add_items(reader.read_blocks(body), blocks, images, package, reader.unread)
        _add_margin(_FOOTERS, styles, reader, blocks)
        title = package.read_title()
    finally:
        package.close()
    reader.unread.image_count += images.skipped_count
    return ParsedDocument(
        blocks.blocks,
        title=choose_title(title, blocks.blocks),
        warnings=reader.unread.list_warnings(),
        images=images.images,
    )


def add_items(
    items: Iterable[OdfItem],
    blocks: BlockList,
    images: ImageList,
    package: OdfPackage,
    unread: UnreadContent,
    *,
    slide: int | None = None,
) -> None:
    """Add blocks and images to a document.

    Args:
        items: The blocks.
        blocks: Blocks of the document.
        images: Images of the document.
        package: The file with the images.
        unread: Counter of the images that are not read.
        slide: Number of the slide from 1; None for a text.

    Raises:
        TextTooLong: The document has more characters or nodes than the limits allow.
    """
    for item in items:
        if item.kind is not BlockKind.IMAGE:
            blocks.add(item.kind, item.text, level=item.level, slide=slide)
        elif images.is_enabled and (data := package.read_data(item.text)):
            images.add_file(data, slide=slide)
        else:
            unread.image_count += 1


def _add_margin(names: frozenset[str], styles: Element | None, reader: ContentReader, blocks: BlockList) -> None:
    """Add the lines of the page headers or footers."""
    elements = styles.iter() if styles is not None else ()
    texts = [reader.read_lines(element) for element in elements if get_name(element) in names]
    lines = [line for text in texts for line in clean_text(text).split("\n") if not is_page_number(line)]
    blocks.add(BlockKind.PARAGRAPH, "\n".join(dict.fromkeys(lines)))
