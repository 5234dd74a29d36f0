"""The nouns of a transfer: its errors, its limits, and what an import has done."""

from dataclasses import dataclass

from app.errors import ConflictError, InvalidInputError, TooLargeError, TooManyRequestsError, UnavailableError
from app.ingestion.types import MAX_CHUNKS, MAX_NODES

FORMAT = "carrel-knowledge-base"
FORMAT_VERSION = 1
# What a document brings beside its original and its pictures: each part is read into memory at once.
MAX_PART_BYTES = 128 * 1024 * 1024
MAX_RECORD_BYTES = 1024 * 1024
MAX_IMAGE_BYTES = 32 * 1024 * 1024
MAX_DOCUMENT_CHUNKS = MAX_CHUNKS
MAX_DOCUMENT_NODES = MAX_NODES
MAX_DOCUMENT_IMAGES = 2_000
MAX_TREE_LEVELS = 64
# A page has ten thousand lines of six numbers at most, as in the document tree.
MAX_PAGE_NUMBERS = 60_000
MAX_URI_LENGTH = 2_048
MAX_WARNING_LENGTH = 2_000
MAX_CHUNK_CHARACTERS = 200_000
"""Characters of a chunk; no embedding model reads more."""

MAX_OVERLAP_FACTOR = 4
"""How often the chunks of a document may repeat its text, beyond a million characters."""

MAX_LINE_BYTES = 1024 * 1024
"""Bytes of a line of JSON in an archive."""

LARGE_DOCUMENT_BYTES = 16 * 1024 * 1024
"""Bytes of parts, originals and pictures apart, of a document that is imported alone."""


class ArchiveDamaged(InvalidInputError):
    """The archive is damaged, or is none."""

    code = "archive_damaged"


class ArchiveTruncated(ArchiveDamaged):
    """The archive ends too early."""

    code = "archive_truncated"


class ArchiveVersionUnsupported(InvalidInputError):
    """The archive was written in a newer format than this service reads."""

    code = "archive_version_unsupported"


class ArchiveTooLarge(TooLargeError):
    """A part of the archive is larger than the limit."""

    code = "too_large"


class TooManyTransfers(TooManyRequestsError):
    """This tenant has as many exports or imports at work as it may have; try again when one has ended."""

    code = "too_many_transfers"


class TransfersBusy(UnavailableError):
    """The service works on as many exports or imports as it can; try again later."""

    code = "transfers_busy"


class ArchiveMismatch(ConflictError):
    """The archive's vectors or words were made in another way than those of the knowledge base."""

    code = "archive_mismatch"


class ExportInterrupted(ConflictError):
    """The knowledge base was reindexed or deleted while it was exported."""

    code = "export_interrupted"


@dataclass(slots=True)
class ImportResult:
    """What an import has done so far.

    ``existing`` counts documents that were there already, ``conflicts`` those that are there with other bytes.
    """

    documents: int = 0
    chunks: int = 0
    existing: int = 0
    conflicts: int = 0
