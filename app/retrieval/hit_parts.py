"""Stored parts of a hit: its chunk and its document."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from app.documents.source_map import SourceRange
from app.ids import get_creation_time
from app.retrieval.lazy_metadata import LazyMetadata
from app.times import to_utc_time


@dataclass(frozen=True, slots=True)
class HitChunk:
    """Chunk of a hit.

    Attributes:
        id: Id of the chunk.
        version: Version of the document.
        ordinal: Index of the chunk in its document, from 0; ``chunk_index`` in the API.
        content: Text of the chunk, with the head of a table that the chunk repeats.
        start, end: Range of the stored text, in code points.
        page, page_end: First and last page, from 1; None if the format has no pages.
        slide: Slide number from 1; None if the format has no slides.
        section_titles: Headings above the chunk, outermost first.
        node_path: Path of the chunk's node from the root.
        image_ordinal, media_type: Index and media type of the image that the chunk describes; None if it is text.
        metadata: Metadata of the document and the chunk, with reserved fields.
        table_head: Head of a table that ``content`` begins with, before a line break; None for any other chunk.
        source_range: Range of the decoded file.
        place: First and last line or row of the file; None if they are not known.
    """

    id: UUID
    version: int
    ordinal: int
    content: str
    start: int
    end: int
    page: int | None
    page_end: int | None
    slide: int | None
    section_titles: list[str]
    node_path: list[int]
    image_ordinal: int | None
    media_type: str | None
    metadata: LazyMetadata
    table_head: str | None = None
    source_range: SourceRange = None
    place: SourceRange = None

    @property
    def attributes(self) -> dict[str, Any]:
        """Metadata of the document and the chunk."""
        return self.metadata.attributes

    @property
    def flags(self) -> list[str]:
        """Kinds of suspected prompt injection in the text."""
        flags: list[str] = self.metadata.entries.get("$suspicious", [])
        return flags


@dataclass(frozen=True, slots=True)
class HitDocument:
    """Document of a hit.

    Attributes:
        tenant_id: Owner of the document; the system tenant if it is shared.
        id: Id of the document.
        chunk_count: Number of chunks of the document.
        metadata: Metadata of the document and of the chunk, with reserved fields.
        own_metadata: Metadata of the document alone, if the chunk has further metadata; else None.
    """

    tenant_id: UUID
    id: UUID
    chunk_count: int
    metadata: LazyMetadata
    own_metadata: LazyMetadata | None = None

    @property
    def source(self) -> str:
        """Name of the document, usually a file name."""
        name: str = self.metadata.entries["$source"]
        return name

    @property
    def title(self) -> str | None:
        """Title of the document; None if the document has no title."""
        return self.metadata.entries.get("$title")

    @property
    def source_uri(self) -> str | None:
        """Address that the document comes from; None if the uploader gave none."""
        return self.metadata.entries.get("$source_uri")

    @property
    def source_created_at(self) -> datetime | None:
        """Time at which the source was created; None if the uploader gave none."""
        created = self.metadata.entries.get("$source_created_at")
        return None if created is None else to_utc_time(datetime.fromisoformat(created))

    @property
    def attributes(self) -> dict[str, Any]:
        """Metadata of the document, without reserved fields."""
        return self.metadata.attributes if self.own_metadata is None else self.own_metadata.entries

    @property
    def effective_date(self) -> datetime:
        """``source_created_at``, or the time of the first upload if that is None."""
        return self.source_created_at or get_creation_time(self.id)
