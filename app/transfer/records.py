"""What stands in an archive, as JSON: the manifest, a document, its nodes, printed pages and chunks."""

import json
from collections.abc import Iterator
from typing import IO, Annotated, Any, Literal, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from app.documents.scopes import MAX_SCOPE_ID
from app.errors import InvalidInput
from app.filters import check_metadata
from app.ingestion.titles import MAX_TITLE
from app.ingestion.types import BlockKind, NodeKind
from app.times import GivenTime
from app.transfer.types import (
    FORMAT,
    MAX_LINE_BYTES,
    MAX_URI,
    MAX_WARNING,
    MOST_LEVELS,
    MOST_PAGE_NUMBERS,
    MOST_PICTURES,
    VERSION,
    ArchiveDamaged,
    ArchiveNewer,
)

RecordT = TypeVar("RecordT", bound="Record")
MANIFEST, SUMS, LEFT_OUT = "manifest.json", "SHA256SUMS", "left-out.jsonl"
DOCUMENT, ORIGINAL = "document.json", "original"
TEXT, NODES, PAGES, CHUNKS, VECTORS = "text.txt", "nodes.jsonl", "pages.jsonl", "chunks.jsonl", "vectors.f16"
PARTS = (TEXT, NODES, PAGES, CHUNKS, VECTORS)


def _storable(value: str) -> str:
    if "\0" in value:
        raise ValueError("must not contain NUL")
    value.encode()
    return value


def _metadata(value: dict[str, Any]) -> dict[str, Any]:
    try:
        return check_metadata(value)
    except InvalidInput as exc:
        raise ValueError(exc.message) from exc


_Name = Annotated[str, StringConstraints(min_length=1, max_length=512), AfterValidator(_storable)]
_ScopeId = Annotated[str, StringConstraints(min_length=1, max_length=MAX_SCOPE_ID), AfterValidator(_storable)]
_Title = Annotated[str, StringConstraints(max_length=MAX_TITLE), AfterValidator(_storable)]
_Address = Annotated[str, StringConstraints(max_length=MAX_URI), AfterValidator(_storable)]
_Warning = Annotated[str, StringConstraints(max_length=MAX_WARNING), AfterValidator(_storable)]
_Number = Annotated[int, Field(ge=0, lt=1 << 31)]
_Counted = Annotated[int, Field(ge=1, lt=1 << 31)]
_Path = Annotated[tuple[_Number, ...], Field(max_length=MOST_LEVELS)]
_Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
_MediaType = Annotated[str, StringConstraints(pattern=r"^[a-z0-9.+-]+/[a-z0-9.+-]+$", max_length=127)]
_Metadata = Annotated[dict[str, Any], AfterValidator(_metadata)]


class Record(BaseModel):
    """What is not known is refused: a newer format has a higher number."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def encoded(self) -> bytes:
        """As one line."""
        return self.model_dump_json(exclude_defaults=True).encode() + b"\n"


class Manifest(Record):
    """What the archive is, and what its vectors and words were made with.

    ``settings`` is what ``POST /v1/knowledge-bases`` takes, without a name; ``average_length`` is what words are
    weighed with.
    """

    format: Literal["carrel-knowledge-base"]
    version: _Counted
    carrel: _Name
    name: _Name
    settings: dict[str, Any]
    identity: dict[str, Any]
    average_length: Annotated[float, Field(gt=0, lt=1e6, allow_inf_nan=False)]
    exported_at: GivenTime


class Part(Record):
    """A file that belongs to a document."""

    name: Annotated[str, StringConstraints(max_length=64)]
    bytes: Annotated[int, Field(ge=0, lt=1 << 33)]
    sha256: _Digest


class PictureRecord(Record):
    """A picture of the document; its bytes are ``media/`` and its number."""

    number: _Number
    media_type: Literal["image/png", "image/jpeg"]
    width: _Counted
    height: _Counted


class DocumentRecord(Record):
    """A document as its owner knows it; ``parts`` are its files in their order, the last one is the original."""

    source: _Name
    media_type: _MediaType
    created_at: GivenTime
    title: _Title | None = None
    external_id: _Name | None = None
    source_uri: _Address | None = None
    source_created_at: GivenTime | None = None
    encoding: _Name | None = None
    user_id: _ScopeId | None = None
    chat_id: _ScopeId | None = None
    agent_id: _ScopeId | None = None
    dynamic: bool = False
    expires_at: GivenTime | None = None
    metadata: _Metadata = Field(default_factory=dict)
    page_count: _Counted | None = None
    warnings: Annotated[list[_Warning], Field(max_length=100)] = Field(default_factory=list)
    pictures: Annotated[list[PictureRecord], Field(max_length=MOST_PICTURES)] = Field(default_factory=list)
    parts: Annotated[list[Part], Field(max_length=MOST_PICTURES + len(PARTS) + 1)]

    @property
    def original(self) -> Part:
        """The file that was uploaded."""
        return self.parts[-1]

    def checked(self) -> Self:
        """The same, its parts being those that a document has. Raises ArchiveDamaged."""
        names = [*PARTS, *(picture_name(one.number) for one in self.pictures), ORIGINAL]
        if [part.name for part in self.parts] != names or len(set(names)) != len(names):
            raise ArchiveDamaged("A document of the archive has other parts than it should have.")
        return self


class NodeRecord(Record):
    """A node of the tree; ``path`` is its place from the root, whose own is empty."""

    path: _Path = ()
    kind: NodeKind
    level: _Number
    start: _Number
    end: _Number
    title: _Title | None = None
    page: _Counted | None = None
    page_end: _Counted | None = None
    slide: _Counted | None = None
    block: BlockKind | None = None


class PageRecord(Record):
    """Where lines stand on a page, as in ``PrintedLines``: tenths of a point, six numbers a line."""

    page: _Counted
    width: _Number
    height: _Number
    lines: Annotated[list[Annotated[int, Field(ge=-(1 << 31), lt=1 << 31)]], Field(max_length=MOST_PAGE_NUMBERS)]


class ChunkRecord(Record):
    """A chunk: its range of the text, and what is known of it. ``embedded`` says that it has a vector."""

    start: _Number
    end: _Number
    tokens: _Number
    path: _Path = ()
    sections: Annotated[tuple[_Title, ...], Field(max_length=MOST_LEVELS)] = ()
    page: _Counted | None = None
    page_end: _Counted | None = None
    slide: _Counted | None = None
    metadata: _Metadata = Field(default_factory=dict)
    picture: _Number | None = None
    embedded: bool = True


def picture_name(number: int) -> str:
    """The part that holds a picture."""
    return f"media/{number}"


def read_manifest(content: bytes) -> Manifest:
    """Raises ArchiveDamaged, ArchiveNewer."""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as exc:
        raise ArchiveDamaged("The archive's manifest is no JSON.") from exc
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ArchiveDamaged("That is no archive of a knowledge base.")
    if isinstance(number := found.get("version"), int) and number > VERSION:
        raise ArchiveNewer(f"The archive has format {number}; this service reads {VERSION}.")
    return read_record(Manifest, content, MANIFEST)


def read_record(kind: type[RecordT], content: bytes, name: str) -> RecordT:
    """Raises ArchiveDamaged, naming the file and the field, and nothing that stands there."""
    try:
        return kind.model_validate_json(content)
    except ValidationError as exc:
        first = exc.errors(include_input=False, include_url=False, include_context=False)[0]
        at = ".".join(map(str, first["loc"])) or "it"
        raise ArchiveDamaged(f"{name}: {at} is not valid ({first['type']}).") from exc


def read_lines(file: IO[bytes], name: str, *, most: int) -> Iterator[tuple[str, bytes]]:
    """Yield each line that is not empty, with its place; no more than a line is in memory. Raises ArchiveDamaged."""
    number = 0
    while line := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(line) > MAX_LINE_BYTES:
            raise ArchiveDamaged(f"{name}, line {number}: it has more than {MAX_LINE_BYTES} bytes.")
        if number > most:
            raise ArchiveDamaged(f"{name} has more than {most} lines.")
        if line := line.strip():
            yield f"{name}, line {number}", line
