"""Parser of rich text files (RTF): headings, paragraphs, lists, tables, notes, text boxes and fields."""

from pathlib import Path

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats.rtf.destination_words import DESTINATION_HANDLERS
from app.ingestion.parsers.formats.rtf.format_words import FORMAT_HANDLERS
from app.ingestion.parsers.formats.rtf.reader import RtfReader, UnreadCounts
from app.ingestion.parsers.formats.rtf.tokens import is_rich_text, iter_tokens
from app.ingestion.parsers.toolkit.blocks import BlockList
from app.ingestion.parsers.toolkit.image_list import ImageList
from app.ingestion.parsers.toolkit.page_numbers import is_page_number
from app.ingestion.parsers.toolkit.text_cleanup import clean_text
from app.ingestion.parsers.toolkit.titles import choose_title
from app.ingestion.parsers.toolkit.unread_content import UnreadContent
from app.ingestion.types import BlockKind, CorruptFile, ParsedDocument
from app.warnings import ServiceWarning, WarningCode

_HANDLERS = {**FORMAT_HANDLERS, **DESTINATION_HANDLERS}


def parse(path: Path, options: ParseOptions) -> ParsedDocument:
    """Parse a rich text file. Deleted and struck text is left out, and hidden text is counted.

    Footnotes, endnotes and comments become notes after their paragraph. The text of all page headers comes first, and
    the text of all page footers last, without repetitions and page numbers.

    Args:
        path: File to read.
        options: Options and limits.

    Returns:
        The blocks in reading order. The title comes from the file's properties, else from the first heading of level 1.

    Raises:
        CorruptFile: The file is not a rich text file.
        TextTooLong: A table is too large, or the file has more text than the limits allow.
    """
    data = path.read_bytes()
    if not is_rich_text(data):
        raise CorruptFile("The file is not a rich text file.")
    return read_rich_text(data, options)


def read_rich_text(data: bytes, options: ParseOptions) -> ParsedDocument:
    """Read the bytes of a rich text file, as ``parse`` does. Raises TextTooLong."""
    reader = RtfReader(_HANDLERS, needs_images=options.needs_images)
    items = reader.read_tokens(iter_tokens(data))
    blocks = BlockList(options)
    _add_margin(reader.headers, blocks)
    for item in items:
        blocks.add(item.kind, item.text, level=item.level)
    _add_margin(reader.footers, blocks)
    images = ImageList(blocks, options)
    for image in reader.images:
        images.add_file(image)
    unread = reader.unread
    unread.images += images.skipped_count
    return ParsedDocument(
        blocks.blocks,
        title=choose_title(reader.title, blocks.blocks),
        warnings=_list_warnings(unread),
        images=images.images,
        words_left_out=unread.struck_words,
    )


def _add_margin(texts: list[str], blocks: BlockList) -> None:
    """Add the lines of the page headers or footers, without repeated lines and page numbers."""
    lines = [line for text in texts for line in clean_text(text).split("\n") if not is_page_number(line)]
    blocks.add(BlockKind.PARAGRAPH, "\n".join(dict.fromkeys(lines)))


def _list_warnings(counts: UnreadCounts) -> list[ServiceWarning]:
    unread = UnreadContent()
    unread.image_count = counts.images
    unread.add(WarningCode.EMBEDDED_DOCUMENTS_NOT_READ, counts.objects)
    unread.add(WarningCode.EQUATIONS_NOT_READ, counts.equations)
    unread.add(WarningCode.HIDDEN_TEXT_NOT_READ, counts.hidden_words)
    unread.add(WarningCode.STRUCK_TEXT_NOT_READ, counts.struck_words)
    unread.add(WarningCode.SYMBOLS_NOT_READ, counts.symbols)
    return unread.list_warnings()
