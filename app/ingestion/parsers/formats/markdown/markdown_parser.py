"""Parser of Markdown: CommonMark with tables, notes, formulas and callouts, read as the HTML that it means."""

from pathlib import Path

from markdown_it import MarkdownIt

from app.documents.source_map import SourceSegment
from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats.html import add_fragment
from app.ingestion.parsers.formats.html.page_state import MarkupReport, list_markup_warnings
from app.ingestion.parsers.formats.markdown.block_rules import add_block_rules
from app.ingestion.parsers.formats.markdown.front_matter import split_front_matter
from app.ingestion.parsers.formats.markdown.inline_rules import add_inline_rules
from app.ingestion.parsers.formats.markdown.markdown_positions import build_markdown_source, render_markdown
from app.ingestion.parsers.toolkit.blocks import BlockList
from app.ingestion.parsers.toolkit.character_decoding import decode_text
from app.ingestion.types import BlockKind, ParsedDocument


def parse(path: Path, options: ParseOptions) -> ParsedDocument:
    """Parse a Markdown file. The description and the dates of front matter are read, and embedded HTML is read.

    Args:
        path: File to read.
        options: Options and limits.

    Returns:
        The blocks. The title is the title in the front matter, else the first heading of level 1.

    Raises:
        TextTooLong: The document has more characters or nodes than the limits allow.
    """
    decoded = decode_text(path.read_bytes(), encoding=options.encoding)
    front_matter, text = split_front_matter(decoded.text.replace("\r\n", "\n"))
    blocks = BlockList(options)
    blocks.number_lines(decoded.text)
    front_matter_range = SourceSegment(0, 0, 0, _find_start(decoded.text, text))
    blocks.add(
        BlockKind.PARAGRAPH,
        "\n".join(front_matter.lines),
        locate=lambda shown: [front_matter_range._replace(length=len(shown))],
    )
    rendered = render_markdown(_create_parser(), text)
    start = _find_start(decoded.text, text)
    report = add_fragment(rendered.markup, blocks, source=build_markdown_source(rendered, decoded.text, start))
    return ParsedDocument(
        blocks.blocks,
        title=front_matter.title or blocks.find_first_heading(level=1),
        warnings=[*decoded.warnings, *list_markup_warnings(report)],
        words_left_out=report.words_left_out + front_matter.words_left_out,
    )


def add_markdown(text: str, blocks: BlockList) -> MarkupReport:
    """Add the blocks of Markdown, such as a cell of a notebook.

    Args:
        text: The Markdown.
        blocks: Blocks of the document.

    Returns:
        The number of words, images and media that were not read.

    Raises:
        TextTooLong: The document has more characters or nodes than the limits allow.
    """
    return add_fragment(_create_parser().render(text), blocks)


def _create_parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    add_block_rules(parser)
    add_inline_rules(parser)
    return parser


def _find_start(source: str, text: str) -> int:
    """Return the offset of the Markdown after the front matter in the source, which may have other line breaks."""
    start = 0
    for _ in range(source.count("\n") - text.count("\n")):
        start = source.find("\n", start) + 1
    return start
