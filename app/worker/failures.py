"""What a failed job says."""

from dataclasses import replace

from app.errors import AppError, JobPostponed, UnavailableError
from app.inference.embedding import EmbeddingMismatch, EmbeddingRejected, EmbeddingUnavailable
from app.inference.vision import VisionUnavailable
from app.ingestion.types import IngestionError
from app.jobs.queue import JobFailure
from app.knowledge_bases.types import IndexMismatch
from app.lexical.weights import TooManyTerms
from app.object_store import ObjectStoreUnavailable
from app.quotas.types import QuotaExceeded
from app.temp_files import TempDiskFull


class UnknownJobKind(UnavailableError):
    """This worker does not know that kind of job; a newer one may."""


def describe_failure(error: BaseException) -> JobFailure:
    """What a failed job says: only our own errors' sentences, never a library's, which may quote the document.

    A sentence that could not be stored would leave the job without an end, so it is made storable.
    """
    failure = _to_job_failure(error)
    return replace(failure, message=failure.message.encode("utf-8", "replace").decode().replace("\0", ""))


def _to_job_failure(error: BaseException) -> JobFailure:
    match error:
        case IngestionError() | JobPostponed():
            return JobFailure(error.code, error.message, error.retryable)
        case EmbeddingUnavailable() | TempDiskFull() | ObjectStoreUnavailable() | VisionUnavailable():
            return JobFailure(error.code, error.message, True, error.retry_after)
        case EmbeddingMismatch() | EmbeddingRejected() | IndexMismatch():
            return JobFailure("embedding_unavailable", error.message, False)
        case QuotaExceeded() | TooManyTerms():
            return JobFailure(error.code, error.message, False)
        case UnavailableError():
            return JobFailure("internal", error.message, True, error.retry_after)
        case AppError():
            return JobFailure("internal", error.message, False)
    return JobFailure("internal", "Something went wrong inside Carrel.", True)
