"""JSON records of an archive: the manifest, and each document with its nodes, pages and chunks."""

import json
from collections.abc import Iterator
from typing import IO, Annotated, Any, Literal, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from app.documents.context_lines import MAX_LINE_CHARACTERS
from app.documents.provided_graph import (
    MAX_ENTITY_COUNT,
    MAX_ENTITY_NAME_CHARACTERS,
    MAX_PREDICATE_CHARACTERS,
    MAX_PROVIDED_ENTITIES,
    MAX_PROVIDED_RELATIONS,
    NO_PROVIDED_GRAPH,
    ProvidedEntity,
    ProvidedGraph,
    ProvidedRelation,
)
from app.documents.scopes import MAX_SCOPE_ID_LENGTH
from app.documents.source_map import MAX_BLOCK_SEGMENTS, UNKNOWN
from app.errors import InvalidInputError
from app.filters import check_metadata
from app.graph.entities.types import MAX_CORRECTIONS
from app.ingestion.title_limits import MAX_TITLE_CHARACTERS
from app.ingestion.types import BlockKind, NodeKind
from app.times import ProvidedTime
from app.transfer.types import (
    FORMAT,
    FORMAT_VERSION,
    MAX_CHUNK_CHARACTERS,
    MAX_DOCUMENT_IMAGES,
    MAX_LINE_BYTES,
    MAX_PAGE_NUMBERS,
    MAX_TREE_LEVELS,
    MAX_URI_LENGTH,
    MAX_WARNING_LENGTH,
    ArchiveDamaged,
    ArchiveVersionUnsupported,
)
from app.warnings import is_warning_code

RecordT = TypeVar("RecordT", bound="ArchiveRecord")
MANIFEST, CHECKSUMS, SKIPPED_DOCUMENTS = "manifest.json", "SHA256SUMS", "skipped.jsonl"
DOCUMENT, ORIGINAL = "document.json", "original"
TEXT, NODES, PAGES, CHUNKS, VECTORS = "text.txt", "nodes.jsonl", "pages.jsonl", "chunks.jsonl", "vectors.f16"
PARTS = (TEXT, NODES, PAGES, CHUNKS, VECTORS)
REPLIES = "replies.jsonl"
"""Part with the replies of the enrichment; only documents that were enriched have it."""


def check_storable(value: str) -> str:
    """Return a text that the database can store. Raises ValueError."""
    if "\0" in value:
        raise ValueError("must not contain NUL")
    value.encode()
    return value


def _check_metadata(value: dict[str, Any]) -> dict[str, Any]:
    try:
        return check_metadata(value)
    except InvalidInputError as exc:
        raise ValueError(exc.message) from exc


def _check_warning_code(value: str) -> str:
    if not is_warning_code(value):
        raise ValueError("must be a warning code")
    return value


_Name = Annotated[str, StringConstraints(min_length=1, max_length=512), AfterValidator(check_storable)]
_ScopeId = Annotated[
    str, StringConstraints(min_length=1, max_length=MAX_SCOPE_ID_LENGTH), AfterValidator(check_storable)
]
_Title = Annotated[str, StringConstraints(max_length=MAX_TITLE_CHARACTERS), AfterValidator(check_storable)]
_TableHead = Annotated[
    str, StringConstraints(min_length=1, max_length=MAX_CHUNK_CHARACTERS), AfterValidator(check_storable)
]
ContextLineText = Annotated[
    str, StringConstraints(min_length=1, max_length=MAX_LINE_CHARACTERS), AfterValidator(check_storable)
]
EntityName = Annotated[
    str, StringConstraints(min_length=1, max_length=MAX_ENTITY_NAME_CHARACTERS), AfterValidator(check_storable)
]
EntityType = Annotated[
    str, StringConstraints(min_length=1, max_length=MAX_PREDICATE_CHARACTERS), AfterValidator(check_storable)
]
_Uri = Annotated[str, StringConstraints(max_length=MAX_URI_LENGTH), AfterValidator(check_storable)]
_WarningCode = Annotated[str, AfterValidator(_check_warning_code)]
_WarningMessage = Annotated[str, StringConstraints(max_length=MAX_WARNING_LENGTH), AfterValidator(check_storable)]
Number = Annotated[int, Field(ge=0, lt=1 << 31)]
_SourceNumber = Annotated[int, Field(ge=UNKNOWN, lt=1 << 31)]
_PositiveNumber = Annotated[int, Field(ge=1, lt=1 << 31)]
_Path = Annotated[tuple[Number, ...], Field(max_length=MAX_TREE_LEVELS)]
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
_MediaType = Annotated[str, StringConstraints(pattern=r"^[a-z0-9.+-]+/[a-z0-9.+-]+$", max_length=127)]
_Metadata = Annotated[dict[str, Any], AfterValidator(_check_metadata)]


class ArchiveRecord(BaseModel):
    """Base of all records. Unknown fields are refused: a newer format has a higher version."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def to_json_line(self) -> bytes:
        """Return the record as one line of JSON, without fields that have their default."""
        return self.model_dump_json(exclude_defaults=True).encode() + b"\n"


class MergeRecord(ArchiveRecord):
    """A merge: an entity that counts as another. Both names are normalized."""

    name: EntityName
    target: EntityName


class SplitRecord(ArchiveRecord):
    """A split: an entity that counts as another in one document. ``target_name`` is the name that people gave."""

    name: EntityName
    target: EntityName
    target_name: EntityName


class ArchiveManifest(ArchiveRecord):
    """Description of an archive, with the identity of the embedding model and analyzer that made its vectors and terms.

    ``settings`` are the body of ``POST /v1/knowledge-bases`` without a name. ``average_length`` is the mean chunk
    length of the BM25 term weights.
    """

    format: Literal["carrel-knowledge-base"]
    version: _PositiveNumber
    carrel: _Name
    name: _Name
    settings: dict[str, Any]
    identity: dict[str, Any]
    merges: Annotated[tuple[MergeRecord, ...], Field(max_length=MAX_CORRECTIONS)] = ()
    average_length: Annotated[float, Field(gt=0, lt=1e6, allow_inf_nan=False)]
    exported_at: ProvidedTime


class ArchivePart(ArchiveRecord):
    """A file that belongs to a document."""

    name: Annotated[str, StringConstraints(max_length=64)]
    bytes: Annotated[int, Field(ge=0, lt=1 << 33)]
    sha256: Digest


class ImageRecord(ArchiveRecord):
    """An image of the document. The part ``images/N`` holds its bytes; N is ``number``."""

    number: Number
    media_type: Literal["image/png", "image/jpeg"]
    width: _PositiveNumber
    height: _PositiveNumber


class WarningRecord(ArchiveRecord):
    """A warning of the document. ``count`` is the number of things that the warning is about, if they were counted."""

    code: _WarningCode
    message: _WarningMessage
    count: Number | None = None


class DocumentRecord(ArchiveRecord):
    """A document with its attributes. ``parts`` are its files in order; the last file is the original."""

    source: _Name
    media_type: _MediaType
    created_at: ProvidedTime
    title: _Title | None = None
    external_id: _Name | None = None
    source_uri: _Uri | None = None
    source_created_at: ProvidedTime | None = None
    encoding: _Name | None = None
    user_id: _ScopeId | None = None
    chat_id: _ScopeId | None = None
    agent_id: _ScopeId | None = None
    dynamic: bool = False
    expires_at: ProvidedTime | None = None
    metadata: _Metadata = Field(default_factory=dict)
    page_count: _PositiveNumber | None = None
    splits: Annotated[tuple[SplitRecord, ...], Field(max_length=MAX_CORRECTIONS)] = ()
    warnings: Annotated[list[WarningRecord], Field(max_length=100)] = Field(default_factory=list)
    images: Annotated[list[ImageRecord], Field(max_length=MAX_DOCUMENT_IMAGES)] = Field(default_factory=list)
    parts: Annotated[list[ArchivePart], Field(max_length=MAX_DOCUMENT_IMAGES + len(PARTS) + 2)]

    @property
    def original(self) -> ArchivePart:
        """The uploaded file."""
        return self.parts[-1]

    def check_parts(self) -> Self:
        """Return the record if it has exactly the parts of a document, in order. Raises ArchiveDamaged."""
        replies = [REPLIES] if any(part.name == REPLIES for part in self.parts) else []
        names = [*PARTS, *replies, *(build_image_name(image.number) for image in self.images), ORIGINAL]
        if [part.name for part in self.parts] != names or len(set(names)) != len(names):
            raise ArchiveDamaged("A document of the archive has missing or unknown parts. Export it again.")
        return self


class NodeRecord(ArchiveRecord):
    """A node of the document tree. ``path`` has the child number at each level; the root's path is empty.

    ``source`` of a paragraph has its positions in the file like ``SourceMap``, as offsets into the paragraph.
    ``places`` has the numbers of its lines or rows in the same form.
    """

    path: _Path = ()
    kind: NodeKind
    level: Number
    start: Number
    end: Number
    title: _Title | None = None
    page: _PositiveNumber | None = None
    page_end: _PositiveNumber | None = None
    slide: _PositiveNumber | None = None
    block: BlockKind | None = None
    source: Annotated[tuple[_SourceNumber, ...], Field(max_length=4 * MAX_BLOCK_SEGMENTS)] = ()
    places: Annotated[tuple[_SourceNumber, ...], Field(max_length=4 * MAX_BLOCK_SEGMENTS)] = ()


class PageRecord(ArchiveRecord):
    """Positions of a page's lines, like ``LineLayout``: six numbers per line, in tenths of a point."""

    page: _PositiveNumber
    width: Number
    height: Number
    lines: Annotated[list[Annotated[int, Field(ge=-(1 << 31), lt=1 << 31)]], Field(max_length=MAX_PAGE_NUMBERS)]


class EntityRecord(ArchiveRecord):
    """An entity that came with a chunk."""

    name: EntityName
    type: EntityType | None = None
    count: Annotated[int, Field(ge=1, le=MAX_ENTITY_COUNT)] = 1


class RelationRecord(ArchiveRecord):
    """A relation between two entities that came with a chunk."""

    subject: EntityName
    predicate: EntityType
    object: EntityName


class ChunkRecord(ArchiveRecord):
    """A chunk: its range of the text and its attributes. ``embedded`` is True if the chunk has a vector.

    ``entities`` and ``relations`` came with the chunk. All other entities are extracted again.

    ``table_head`` is the head of the table that the chunk begins inside of, and that its text repeats.
    ``context_line`` is a line of a chat model: the vector and the terms of the chunk include it.
    """

    start: Number
    end: Number
    tokens: Number
    path: _Path = ()
    sections: Annotated[tuple[_Title, ...], Field(max_length=MAX_TREE_LEVELS)] = ()
    page: _PositiveNumber | None = None
    page_end: _PositiveNumber | None = None
    slide: _PositiveNumber | None = None
    metadata: _Metadata = Field(default_factory=dict)
    image: Number | None = None
    table_head: _TableHead | None = None
    context_line: ContextLineText | None = None
    embedded: bool = True
    entities: Annotated[tuple[EntityRecord, ...], Field(max_length=MAX_PROVIDED_ENTITIES)] = ()
    relations: Annotated[tuple[RelationRecord, ...], Field(max_length=MAX_PROVIDED_RELATIONS)] = ()

    def to_provided_graph(self) -> ProvidedGraph:
        """Return the entities and relations that came with the chunk."""
        if not self.entities and not self.relations:
            return NO_PROVIDED_GRAPH
        return ProvidedGraph(
            tuple(ProvidedEntity(entity.name, entity.type, entity.count) for entity in self.entities),
            tuple(ProvidedRelation(each.subject, each.predicate, each.object) for each in self.relations),
        )


def build_image_name(number: int) -> str:
    """Return the name of the part that holds an image."""
    return f"images/{number}"


def parse_manifest(content: bytes) -> ArchiveManifest:
    """Return the manifest of an archive.

    Args:
        content: Bytes of the file ``manifest.json``.

    Raises:
        ArchiveDamaged: The content is not the manifest of an archive.
        ArchiveVersionUnsupported: A newer version of Carrel wrote the archive.
    """
    try:
        values = json.loads(content)
    except (ValueError, RecursionError) as exc:
        raise ArchiveDamaged("The archive's manifest is not JSON. Export it again.") from exc
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise ArchiveDamaged("The file is not an archive of a knowledge base. Use a file of `carrel export`.")
    if isinstance(version := values.get("version"), int) and version > FORMAT_VERSION:
        raise ArchiveVersionUnsupported(
            f"The archive has format {version}, and this service reads {FORMAT_VERSION}. Update this service."
        )
    return parse_record(ArchiveManifest, content, MANIFEST)


def parse_record(record_type: type[RecordT], content: bytes, name: str) -> RecordT:
    """Return a record of an archive.

    Args:
        record_type: Type of the record.
        content: The JSON.
        name: Name of the file, and possibly of the line, for the error message.

    Raises:
        ArchiveDamaged: A field is not valid. The message names the file and the field, and quotes no value.
    """
    try:
        return record_type.model_validate_json(content)
    except ValidationError as exc:
        first = exc.errors(include_input=False, include_url=False, include_context=False)[0]
        field_path = ".".join(map(str, first["loc"])) or "it"
        raise ArchiveDamaged(f"{name}: {field_path} is not valid ({first['type']}).") from exc


def read_lines(file: IO[bytes], name: str, *, max_lines: int) -> Iterator[tuple[str, bytes]]:
    """Yield the location and the content of each line that is not empty. Only one line is in memory.

    Args:
        file: The file.
        name: Name of the file, for locations.
        max_lines: Maximum number of lines.

    Raises:
        ArchiveDamaged: A line is too long, or there are too many lines.
    """
    number = 0
    while line := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(line) > MAX_LINE_BYTES:
            raise ArchiveDamaged(f"{name}, line {number}: it has more than {MAX_LINE_BYTES} bytes.")
        if number > max_lines:
            raise ArchiveDamaged(f"{name} has more than {max_lines} lines.")
        if line := line.strip():
            yield f"{name}, line {number}", line
