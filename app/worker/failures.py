"""Failures of jobs: the code, message and retry rule that the queue stores for an exception."""

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
    """This worker does not know the kind of the job; update the worker."""


def describe_failure(error: BaseException) -> JobFailure:
    """Return the failure that the queue stores for an exception.

    The message is always a sentence of Carrel, because a library's message may quote the document. Characters that
    Postgres cannot store are replaced. Otherwise the failure could not be stored, and the job would never end.
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
