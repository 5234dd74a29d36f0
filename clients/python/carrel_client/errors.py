"""Errors of the client, with the details that the service returns."""

from collections.abc import Mapping, Sequence
from typing import Any


class CarrelError(Exception):
    """Base class of all errors of this package."""


class ConnectionFailed(CarrelError):
    """The service does not answer, or the connection broke."""


class UnexpectedReply(CarrelError):
    """The response is not JSON, so it does not come from Carrel."""


class IngestionFailed(CarrelError):
    """The ingestion of a document failed. ``document`` is its last state, ``code`` the stable error code."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document = document
        error = document.get("error") or {}
        self.code = str(error.get("code", "internal"))
        super().__init__(f"{document.get('source')}: {error.get('message', self.code)}")


class WaitTimeout(CarrelError):
    """A document was not ready in time; the service continues its ingestion."""


class ApiError(CarrelError):
    """The service refused a request (RFC 9457).

    ``status`` is the HTTP status, and ``code`` the stable error code. ``request_id`` identifies the request in the log
    of the service. ``errors`` lists the invalid fields as ``{"loc", "msg"}``.
    """

    def __init__(self, status: int, problem: Mapping[str, Any], *, retry_after: float | None = None) -> None:
        self.status = status
        self.code = str(problem.get("type", "about:blank")).rpartition(":")[2].rpartition("/")[2]
        self.detail = str(problem.get("detail") or problem.get("title") or f"status {status}")
        self.request_id = problem.get("request_id")
        self.errors: Sequence[Mapping[str, Any]] = problem.get("errors") or []
        self.retry_after = retry_after
        super().__init__(
            "; ".join([f"{status} {self.detail}", *filter(None, map(self._format_field_error, self.errors))])
        )

    def _format_field_error(self, error: Mapping[str, Any]) -> str | None:
        """Return location and message of a field error, without parts that the error's detail repeats; None if nothing
        is left.
        """
        location, message = ".".join(map(str, error.get("loc", ()))), str(error.get("msg"))
        if f"{location}: {message}" in self.detail:
            return None
        return f"at {location}" if message == self.detail else f"{location}: {message}"


class Unauthorized(ApiError):
    """401: the API key is missing or not valid."""


class Forbidden(ApiError):
    """403: the API key has no right to do this."""


class NotFound(ApiError):
    """404: the object does not exist, or the API key may not see it."""


class Conflict(ApiError):
    """409: the request conflicts with the stored state."""


class PreconditionFailed(ApiError):
    """412: the object does not have the ETag of ``if_match`` any more."""


class TooLarge(ApiError):
    """413: the request is larger than allowed."""


class UnsupportedMediaType(ApiError):
    """415: no parser supports this type of file."""


class Invalid(ApiError):
    """422: the request is invalid; ``errors`` lists the fields."""


class RateLimited(ApiError):
    """429: a rate limit or a quota is used up; ``retry_after`` is in seconds."""


class ServiceUnavailable(ApiError):
    """503: the service, or a part that it needs, is temporarily unavailable."""


BY_STATUS: Mapping[int, type[ApiError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    412: PreconditionFailed,
    413: TooLarge,
    415: UnsupportedMediaType,
    422: Invalid,
    429: RateLimited,
    503: ServiceUnavailable,
}
