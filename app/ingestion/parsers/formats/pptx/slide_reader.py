"""Reader of the shapes of slides: text, tables, charts, SmartArt, images and media."""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats.pptx.shape_positions import (
    ShapePositions,
    get_placeholder,
    get_shape_name,
    list_shapes,
)
from app.ingestion.parsers.formats.pptx.slide_text import SlideTextReader
from app.ingestion.parsers.toolkit.alt_text import clean_alt_text
from app.ingestion.parsers.toolkit.blocks import BlockList
from app.ingestion.parsers.toolkit.image_list import ImageList
from app.ingestion.parsers.toolkit.links import format_link, strip_addresses
from app.ingestion.parsers.toolkit.ooxml import (
    UNREADABLE_ERRORS,
    Element,
    Package,
    Relationship,
    find_child,
    get_attribute,
    get_int_attribute,
    get_tag,
    iter_children,
    iter_texts,
)
from app.ingestion.parsers.toolkit.ooxml_drawings import add_chart, add_extended_chart, read_diagram_lines
from app.ingestion.parsers.toolkit.table_grid import TableGrid
from app.ingestion.parsers.toolkit.unread_content import UnreadContent
from app.ingestion.types import BlockKind, CorruptFile
from app.warnings import WarningCode

_DAMAGED_ERRORS = (CorruptFile, AttributeError, IndexError, TypeError, *UNREADABLE_ERRORS)
_TITLES = frozenset({"title", "ctrTitle"})
_MEDIA_TAGS = frozenset({"a:videoFile", "a:audioFile", "a:wavAudioFile", "a:quickTimeFile", "a:audioCd"})
_MAX_SPAN = 1_000
_EQUATIONS = ("equation", "mathtype")


class SlideReader:
    """Reader of slides. A shape that cannot be read is counted, and the other shapes are read.

    Args:
        package: Parts of the file.
        blocks: Blocks of the document.
        options: Options of the parser call.
        unread: Counter of the content that is not read.
    """

    def __init__(self, package: Package, blocks: BlockList, options: ParseOptions, unread: UnreadContent) -> None:
        self.images = ImageList(blocks, options)
        self._package = package
        self._blocks = blocks
        self._unread = unread
        self._max_cells = options.max_characters // 2
        self._positions = ShapePositions(package)
        self._slide = 0
        self._relationships: dict[str, Relationship] = {}
        self._text = SlideTextReader({}, unread)

    def read_slide(self, root: Element, part: str, number: int, section: str) -> None:
        """Add the blocks of a slide: its title, the name of a section that it begins, and its shapes.

        Args:
            root: Root element of the slide.
            part: Name of the slide part.
            number: Number of the slide, from 1.
            section: Name of the section that begins with this slide; empty if none does.

        Raises:
            TextTooLong: The document has more text than the limit allows.
        """
        self._slide = number
        self._relationships = {link.id: link for link in self._package.list_relationships(part)}
        self._text = SlideTextReader(self._package.list_external_targets(part), self._unread)
        shapes = list(self._iter_shapes(find_child(root, "p:cSld", "p:spTree"), part))
        title = next((shape for shape in shapes if _is_title(shape)), None)
        if title is not None:
            lines = [paragraph.text for paragraph in self._text.read_paragraphs(find_child(title, "p:txBody"))]
            self._blocks.add(BlockKind.HEADING, strip_addresses(" ".join(lines)), level=1, slide=number)
        self._blocks.add(BlockKind.PARAGRAPH, section, slide=number)
        for shape in shapes:
            if shape is not title:
                self._read_shape(shape)

    def read_notes(self, root: Element, part: str, number: int) -> None:
        """Add the text of the notes page of a slide, without its page number, header and footer.

        Args:
            root: Root element of the notes page.
            part: Name of the part.
            number: Number of the slide, from 1.
        """
        reader = SlideTextReader(self._package.list_external_targets(part), self._unread)
        lines: list[str] = []
        for shape in self._iter_shapes(find_child(root, "p:cSld", "p:spTree"), part):
            kind = get_attribute(get_placeholder(shape), "type")
            if get_tag(shape) == "p:sp" and kind not in ("sldImg", "sldNum", "hdr", "ftr", "dt"):
                lines += [paragraph.text for paragraph in reader.read_paragraphs(find_child(shape, "p:txBody"))]
        self._blocks.add(BlockKind.NOTE, "\n".join(lines), slide=number)

    def _iter_shapes(self, tree: Element | None, part: str) -> Iterator[Element]:
        """Yield the shapes from top to bottom, with groups and alternatives replaced by their shapes.

        A stack replaces recursion, because groups may be nested without limit.
        """
        stack = [iter(self._positions.sort_shapes(_replace_alternatives(list_shapes(tree)), part))]
        while stack:
            shape = next(stack[-1], None)
            if shape is None:
                stack.pop()
            elif get_tag(shape) == "p:grpSp":
                self._add_alt_text(shape)
                stack.append(iter(self._positions.sort_shapes(_replace_alternatives(list_shapes(shape)), part)))
            else:
                yield shape

    def _read_shape(self, shape: Element) -> None:
        tag = get_tag(shape)
        try:
            _READERS.get(tag, SlideReader.read_unknown)(self, shape)
        except _DAMAGED_ERRORS:
            self._unread.add(WarningCode.SHAPES_NOT_READ, kind=_KINDS.get(tag, "unknown"))

    def read_text_shape(self, shape: Element) -> None:
        """Add the paragraphs of a shape: a single one as a paragraph, several as list items."""
        placeholder = get_placeholder(shape)
        if get_attribute(placeholder, "type") == "sldNum":
            return
        self._add_alt_text(shape)
        texts = [paragraph.text for paragraph in self._text.read_paragraphs(find_child(shape, "p:txBody"))]
        if len(texts) == 1:
            address = self._text.get_address(get_shape_name(shape))
            self._blocks.add(BlockKind.PARAGRAPH, format_link(texts[0], address), slide=self._slide)
            return
        for text in texts:
            self._blocks.add(BlockKind.LIST_ITEM, text, slide=self._slide)

    def read_image_shape(self, shape: Element) -> None:
        """Add the image with its alternative text, or count it. A video or a sound is counted."""
        name = get_shape_name(shape)
        properties = find_child(shape, "p:nvPicPr", "p:nvPr")
        if any(get_tag(child) in _MEDIA_TAGS for child in iter_children(properties)):
            self._unread.add(WarningCode.MEDIA_NOT_READ)
        else:
            self._add_image(get_attribute(find_child(shape, "p:blipFill", "a:blip"), "embed"))
        text = clean_alt_text(get_attribute(name, "descr"))
        self._blocks.add(BlockKind.PARAGRAPH, format_link(text, self._text.get_address(name)), slide=self._slide)

    def read_graphic(self, shape: Element) -> None:
        """Add a table, a chart or SmartArt, and count any other graphic."""
        self._add_alt_text(shape)
        content = next((element for element in shape.iter() if get_tag(element) in _GRAPHICS), None)
        if content is None:
            self._unread.image_count += 1
        else:
            _GRAPHICS[get_tag(content)](self, content)

    def read_table(self, table: Element) -> None:
        """Add a table. A cell that spans columns or rows is repeated in them."""
        grid = TableGrid(self._max_cells)
        for row in iter_children(table, "a:tr"):
            grid.start_row()
            for cell in iter_children(row, "a:tc"):
                span = max(1, min(get_int_attribute(cell, "gridSpan") or 1, _MAX_SPAN))
                if get_attribute(cell, "vMerge") in ("1", "true"):
                    grid.repeat_cell_above(1)
                elif get_attribute(cell, "hMerge") not in ("1", "true"):
                    text, is_bold = self._text.read_cell(find_child(cell, "a:txBody"))
                    grid.add_cell(text, span, is_bold=is_bold)
        self._blocks.add(BlockKind.TABLE, grid.format_table(), slide=self._slide)

    def read_chart(self, element: Element) -> None:
        """Add the title and the values of a chart."""
        add_chart(self._parse_related_part(get_attribute(element, "id")), self._blocks, slide=self._slide)

    def read_extended_chart(self, element: Element) -> None:
        """Add the title and the values of a chart of Office 2016."""
        root = self._parse_related_part(get_attribute(element, "id"))
        add_extended_chart(root, self._blocks, slide=self._slide)

    def read_diagram(self, element: Element) -> None:
        """Add the lines of SmartArt."""
        for line in read_diagram_lines(self._parse_related_part(get_attribute(element, "dm"))):
            self._blocks.add(BlockKind.LIST_ITEM, line, slide=self._slide)

    def read_object(self, element: Element) -> None:
        """Count an embedded object. Its image is not counted."""
        is_equation = get_attribute(element, "progId").lower().startswith(_EQUATIONS)
        code = WarningCode.EQUATIONS_NOT_READ if is_equation else WarningCode.EMBEDDED_DOCUMENTS_NOT_READ
        self._unread.add(code)

    def read_connector(self, shape: Element) -> None:
        """Add the alternative text of a line, which has no other text."""
        self._add_alt_text(shape)

    def read_unknown(self, shape: Element) -> None:
        """Add the text of a shape of an unknown kind. A shape without text is counted."""
        bodies = [element for element in shape.iter() if get_tag(element).endswith("txBody")]
        texts = [paragraph.text for body in bodies for paragraph in self._text.read_paragraphs(body)]
        texts = texts or ["".join(iter_texts(shape, "a:t"))]
        if not any(texts):
            local = get_tag(shape).rpartition(":")[2]
            self._unread.add(WarningCode.SHAPES_NOT_READ, kind="ink" if local == "contentPart" else "unknown")
        for text in texts:
            self._blocks.add(BlockKind.PARAGRAPH, text, slide=self._slide)

    def _parse_related_part(self, identifier: str) -> Element:
        return self._package.parse_part(self._relationships[identifier].target)

    def _add_image(self, identifier: str) -> None:
        link = self._relationships.get(identifier)
        if link is None or not self.images.is_enabled:
            self._unread.image_count += 1
            return
        try:
            data = self._package.read_part(link.target)
        except CorruptFile:
            self._unread.image_count += 1
        else:
            self.images.add_file(data, slide=self._slide)

    def _add_alt_text(self, shape: Element) -> None:
        text = clean_alt_text(get_attribute(get_shape_name(shape), "descr"))
        self._blocks.add(BlockKind.PARAGRAPH, text, slide=self._slide)


def _is_title(shape: Element) -> bool:
    placeholder = get_placeholder(shape) if get_tag(shape) == "p:sp" else None
    return placeholder is not None and get_attribute(placeholder, "type") in _TITLES


def _replace_alternatives(shapes: list[Element]) -> list[Element]:
    """Return the shapes with each group of alternatives replaced by the shapes of its first choice."""
    replaced: list[Element] = []
    waiting = shapes[::-1]
    while waiting:
        shape = waiting.pop()
        if get_tag(shape) == "mc:AlternateContent":
            choice = find_child(shape, "mc:Choice")
            waiting += list_shapes(choice if choice is not None else find_child(shape, "mc:Fallback"))[::-1]
        else:
            replaced.append(shape)
    return replaced


_READERS: Mapping[str, Callable[[SlideReader, Element], None]] = MappingProxyType(
    {
        "p:sp": SlideReader.read_text_shape,
        "p:pic": SlideReader.read_image_shape,
        "p:graphicFrame": SlideReader.read_graphic,
        "p:cxnSp": SlideReader.read_connector,
    }
)
_GRAPHICS: Mapping[str, Callable[[SlideReader, Element], None]] = MappingProxyType(
    {
        "a:tbl": SlideReader.read_table,
        "c:chart": SlideReader.read_chart,
        "cx:chart": SlideReader.read_extended_chart,
        "dgm:relIds": SlideReader.read_diagram,
        "p:oleObj": SlideReader.read_object,
    }
)
_KINDS: Mapping[str, str] = MappingProxyType(
    {"p:sp": "text", "p:pic": "picture", "p:graphicFrame": "graphic", "p:cxnSp": "line"}
)
