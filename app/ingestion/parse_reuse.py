"""Parsing of originals, each content once in a tenant: the result is stored next to the original and read again."""

import asyncio
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID
from weakref import WeakValueDictionary

from app.db.models.tenant_data import DocumentRow
from app.db.session import Session, TenantDatabase
from app.db.statements import parse_statement
from app.documents.types import build_parse_result_key
from app.errors import UnavailableError
from app.ingestion.parse_files import ParseSource, read_parse_file, write_parse_file
from app.ingestion.parsers.sandbox.pool import ParserPool, ProgressCallback
from app.ingestion.types import ParsedDocument
from app.logging import get_logger
from app.object_store import ObjectStore
from app.warnings import WarningCode, normalize_warning

logger = get_logger(__name__)

MAX_CANDIDATES = 3
"""Maximum number of stored results that are tried. More than one is needed only if an object is missing or damaged."""

SIZE_FACTOR = 4
FREE_BYTES = 64 * 1024
"""A stored result has at most ``FREE_BYTES`` more than ``SIZE_FACTOR`` times the bytes of its original.

The quota of stored bytes thus limits the results too.
"""

MIN_TIME_SHARE = 0.1
"""Share of the shorter timeout. A parser that took less has left out nothing for lack of time."""

TIME_DEPENDENT_WARNINGS = frozenset(
    {
        WarningCode.FONTS_NOT_READABLE,
        WarningCode.IMAGES_NOT_READ,
        WarningCode.OCR_PAGES_NOT_READ,
        WarningCode.PAGES_WITHOUT_TEXT,
    }
)
"""Warnings about parts that a parser may have left out for lack of time."""


class ParseResultRepository:
    """Repository of the stored parse results of one tenant."""

    def __init__(self, session: Session, tenant_id: UUID) -> None:
        self.session = session
        self.tenant_id = tenant_id

    async def list_originals(self, source: ParseSource) -> list[str]:
        """Return the object keys of originals with these bytes that have a stored result of this parse."""
        values = {"t": self.tenant_id, "sha256": source.sha256, "identity": source.identity, "most": MAX_CANDIDATES}
        return [row["key"] for row in await self.session.fetch_rows(_LIST, values)]

    async def record(self, document_id: UUID, object_key: str, identity: bytes) -> bool:
        """Record that the result of a parse is stored. Return False if the original was deleted or replaced."""
        values = {"t": self.tenant_id, "d": document_id, "key": object_key, "identity": identity}
        return await self.session.fetch_row(_RECORD, values) is not None


@dataclass(frozen=True, slots=True)
class OriginalParser:
    """Parser of originals that stores each result, and reads it instead of parsing the same bytes again.

    Attributes:
        objects: Object store with the originals and the results.
        pool: Parser processes.
    """

    objects: ObjectStore
    pool: ParserPool
    _locks: WeakValueDictionary[tuple[UUID, ParseSource], asyncio.Lock] = field(
        default_factory=WeakValueDictionary, init=False
    )

    async def parse(
        self,
        db: TenantDatabase,
        document: DocumentRow,
        object_key: str,
        path: Path,
        *,
        needs_images: bool,
        on_progress: ProgressCallback,
    ) -> ParsedDocument:
        """Return the parse result of an original: a stored one of the same bytes and the same parse, or a new one.

        Parallel calls of this process for the same bytes parse once. Failures are not stored.

        Args:
            db: Database of the tenant, whose documents are considered.
            document: The document.
            object_key: Object key of the original.
            path: File with the bytes of the original, in a directory for temporary files.
            needs_images: Whether the result must include the images of the document.
            on_progress: Callback for progress of the parser.

        Raises:
            IngestionError: The file cannot be parsed; ``ParserPool.parse`` lists the errors.
            ParserUnavailable: No parser process can be started.
        """
        media_type, encoding = document.media_type, document.encoding
        identity = await asyncio.to_thread(
            self.pool.compute_identity, media_type, encoding=encoding, needs_images=needs_images
        )
        if identity is None:
            return await self.pool.parse(
                path, media_type, encoding=encoding, needs_images=needs_images, on_progress=on_progress
            )
        source = ParseSource(document.sha256, identity)
        async with self._locks.setdefault((db.tenant_id, source), asyncio.Lock()):
            result = _ParseResult(db, document, object_key, source, path.with_name("parsed"))
            stored = await self._load(result)
            if stored is not None:
                return stored
            started = time.monotonic()
            parsed = await self.pool.parse(
                path, media_type, encoding=encoding, needs_images=needs_images, on_progress=on_progress
            )
            logger.info("document.parsed", document=str(document.id))
            max_bytes = FREE_BYTES + SIZE_FACTOR * document.bytes
            if not self._is_repeatable(parsed, media_type, time.monotonic() - started):
                logger.info("document.parse_not_stored", document=str(document.id), reason="time_limit")
            elif not await asyncio.to_thread(write_parse_file, result.path, parsed, source, max_bytes=max_bytes):
                logger.info("document.parse_not_stored", document=str(document.id), reason="too_large")
            else:
                await self._store(result)
            return parsed

    async def _load(self, result: "_ParseResult") -> ParsedDocument | None:
        """Read the result from another original with the same bytes, or from an earlier attempt of the same document.

        The result is copied, so the documents can be deleted independently.
        """
        async with result.db.transaction() as session:
            repository = ParseResultRepository(session, result.db.tenant_id)
            keys = await repository.list_originals(result.source)
        # An earlier attempt of the same document needs no copy.
        for key in sorted(keys, key=lambda key: key != result.object_key):
            try:
                await self.objects.get(build_parse_result_key(key), result.path)
            except UnavailableError:  # deleted a moment ago, or the object store does not answer
                continue
            stored = await asyncio.to_thread(
                read_parse_file, result.path, result.source, max_characters=self.pool.max_characters
            )
            if stored is not None:
                logger.info("document.parse_reused", document=str(result.document.id))
                if key != result.object_key:
                    await self._store(result)
                return stored
        return None

    async def _store(self, result: "_ParseResult") -> None:
        """Store the file of a result next to the original. After a failure, the same bytes are parsed again."""
        key = build_parse_result_key(result.object_key)
        try:
            await self.objects.put(key, result.path)
            async with result.db.transaction() as session:
                repository = ParseResultRepository(session, result.db.tenant_id)
                is_recorded = await repository.record(result.document.id, result.object_key, result.source.identity)
            if not is_recorded:  # the deletion of the original may have been before the object was written
                await self.objects.delete(key)
        except UnavailableError as exc:
            logger.info("document.parse_not_stored", document=str(result.document.id), reason=exc.code)

    def _is_repeatable(self, parsed: ParsedDocument, media_type: str, seconds: float) -> bool:
        """Return whether another parse has the same result, because the parser left out nothing for lack of time."""
        if seconds < MIN_TIME_SHARE * self.pool.shorter_timeout_seconds:
            return True
        spec = self.pool.find_parser(media_type)
        codes: Collection[str] = {normalize_warning(warning).code for warning in parsed.warnings}
        return not codes if spec is not None and spec.is_plugin else TIME_DEPENDENT_WARNINGS.isdisjoint(codes)


@dataclass(frozen=True, slots=True)
class _ParseResult:
    """Parse result of one original that is read or stored, and the temporary file for it."""

    db: TenantDatabase
    document: DocumentRow
    object_key: str
    source: ParseSource
    path: Path


_LIST = parse_statement("""
select o.key from document d
  join document_object o on o.tenant_id = d.tenant_id and o.document_id = d.id and o.version = d.version
 where d.tenant_id = :t and d.sha256 = :sha256 and o.parse_identity = :identity
 order by d.id desc limit :most""")
_RECORD = parse_statement("""
update document_object set parse_identity = :identity
 where tenant_id = :t and document_id = :d and key = :key returning 1""")
