"""Errors, limits and results of exports and imports."""

from dataclasses import dataclass

from app.errors import ConflictError, InvalidInputError, TooLargeError, TooManyRequestsError, UnavailableError
from app.ingestion.types import MAX_CHUNKS, MAX_NODES

FORMAT = "carrel-knowledge-base"
FORMAT_VERSION = 4
VERSION_OF_CORRECTIONS = 3
"""Version of archives with corrections of entities, and neither positions in files nor context lines, so that earlier
services read them.
"""

VERSION_WITHOUT_CORRECTIONS = 2
"""Version of archives with neither positions nor corrections of entities."""

# Limits of a document's parts except its original and its images. Each part is read into memory at once.
MAX_PART_BYTES = 128 * 1024 * 1024
MAX_RECORD_BYTES = 1024 * 1024
MAX_IMAGE_BYTES = 32 * 1024 * 1024
MAX_DOCUMENT_CHUNKS = MAX_CHUNKS
MAX_DOCUMENT_NODES = MAX_NODES
MAX_DOCUMENT_IMAGES = 2_000
MAX_DOCUMENT_REPLIES = 20_000
MAX_TREE_LEVELS = 64
# A page has at most ten thousand lines of six numbers, as in the document tree.
MAX_PAGE_NUMBERS = 60_000
MAX_URI_LENGTH = 2_048
MAX_WARNING_LENGTH = 2_000
MAX_CHUNK_CHARACTERS = 200_000
"""Characters of a chunk; no embedding model reads more."""

MAX_OVERLAP_FACTOR = 4
"""Maximum ratio of the chunks' length to the text's length, in addition to a million characters."""

MAX_LINE_BYTES = 1024 * 1024
"""Maximum bytes of a line of JSON in an archive."""

LARGE_DOCUMENT_BYTES = 16 * 1024 * 1024
"""Bytes of a document's parts, without original and images, above which it is imported alone."""


class ArchiveDamaged(InvalidInputError):
    """The archive is damaged, or the file is not an archive of Carrel. Export it again."""

    code = "archive_damaged"


class ArchiveTruncated(ArchiveDamaged):
    """The archive ends too early. Send it again."""

    code = "archive_truncated"


class ArchiveVersionUnsupported(InvalidInputError):
    """A newer version of Carrel wrote the archive. Update this service."""

    code = "archive_version_unsupported"


class ArchiveTooLarge(TooLargeError):
    """A part of the archive is larger than the limit."""

    code = "too_large"


class TooManyTransfers(TooManyRequestsError):
    """The tenant runs as many exports or imports as it may. Try again when one of them has ended."""

    code = "too_many_transfers"


class TransfersBusy(UnavailableError):
    """The service runs as many exports or imports as it can. Try again later."""

    code = "transfers_busy"


class ArchiveMismatch(ConflictError):
    """Another embedding model or analyzer made the archive. Import it into a knowledge base with the same settings."""

    code = "archive_mismatch"


class ExportInterrupted(ConflictError):
    """The knowledge base was reindexed or deleted during the export. Export it again."""

    code = "export_interrupted"


@dataclass(slots=True)
class ImportResult:
    """Counts of an import.

    ``existing`` counts documents that existed before, and ``conflicts`` counts documents that exist with other bytes.
    """

    documents: int = 0
    chunks: int = 0
    existing: int = 0
    conflicts: int = 0
