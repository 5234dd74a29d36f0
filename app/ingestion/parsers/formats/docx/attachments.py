"""Parts that the text of a Word document refers to: images, charts, diagrams and embedded documents."""

from collections.abc import Mapping

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats.html import add_fragment
from app.ingestion.parsers.toolkit.blocks import BlockList
from app.ingestion.parsers.toolkit.character_decoding import decode_text
from app.ingestion.parsers.toolkit.image_list import ImageList
from app.ingestion.parsers.toolkit.ooxml import Element, Package, Relationship
from app.ingestion.parsers.toolkit.ooxml_drawings import add_chart, add_extended_chart, read_diagram_lines
from app.ingestion.parsers.toolkit.unread_content import UnreadContent
from app.ingestion.types import BlockKind, CorruptFile, EncodedImage
from app.warnings import WarningCode

_HTML_EXTENSIONS = (".html", ".htm", ".xhtml")
_CHART_READERS = {"chart": add_chart, "chartEx": add_extended_chart}
_TEXT_EXTENSIONS = (".txt",)


class Attachments:
    """Reader of the parts that a document refers to. A part that is not read is counted.

    Args:
        package: Parts of the file.
        relationships: Relationships of the document part, by id.
        blocks: Blocks of the document.
        options: Options of the parser call.
        unread: Counter of the content that is not read.
    """

    def __init__(
        self,
        package: Package,
        relationships: Mapping[str, Relationship],
        blocks: BlockList,
        options: ParseOptions,
        unread: UnreadContent,
    ) -> None:
        self._package = package
        self._relationships = relationships
        self._blocks = blocks
        self._images = ImageList(blocks, options)
        self._unread = unread
        self._read_targets: set[str] = set()

    @property
    def images(self) -> list[EncodedImage]:
        """Images of the document, if the caller requested images."""
        return self._images.images

    @property
    def skipped_image_count(self) -> int:
        """Number of images that are too small, too large or damaged."""
        return self._images.skipped_count

    def read_image(self, identifier: str) -> None:
        """Add an image, or count it.

        Args:
            identifier: Id of the relationship.
        """
        link = self._relationships.get(identifier)
        if link is None or link.kind != "image" or not self._images.is_enabled:
            self._unread.image_count += 1
            return
        try:
            data = self._package.read_part(link.target)
        except CorruptFile:
            self._unread.image_count += 1
        else:
            self._images.add_file(data)

    def read_drawing(self, identifier: str) -> None:
        """Add the text of a chart or a diagram, or count it as an image. Each part is read once.

        Args:
            identifier: Id of the relationship.
        """
        link = self._relationships.get(identifier)
        root = self._package.parse_optional_part(link.target) if link is not None else None
        if link is None or root is None:
            self._unread.image_count += 1
        elif link.target not in self._read_targets:
            self._read_targets.add(link.target)
            self._add_drawing(root, link.kind)

    def read_embedded_document(self, identifier: str) -> None:
        """Read an embedded document of another format, which some programs write.

        HTML and plain text are read. Other documents are counted.

        Args:
            identifier: Id of the relationship.
        """
        link = self._relationships.get(identifier)
        if link is None or not link.target.endswith(_HTML_EXTENSIONS + _TEXT_EXTENSIONS):
            self._unread.add(WarningCode.EMBEDDED_DOCUMENTS_NOT_READ)
            return
        try:
            data = self._package.read_part(link.target)
        except CorruptFile:
            self._unread.add(WarningCode.EMBEDDED_DOCUMENTS_NOT_READ)
            return
        text = decode_text(data, encoding=None).text
        if link.target.endswith(_HTML_EXTENSIONS):
            add_fragment(text, self._blocks)
        else:
            self._blocks.add(BlockKind.PARAGRAPH, text)

    def _add_drawing(self, root: Element, kind: str) -> None:
        if kind in _CHART_READERS:
            try:
                _CHART_READERS[kind](root, self._blocks)
            except CorruptFile:
                self._unread.image_count += 1
        for line in read_diagram_lines(root):
            self._blocks.add(BlockKind.LIST_ITEM, line)
