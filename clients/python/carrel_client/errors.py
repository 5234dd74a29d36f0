"""Errors of the client, with the details of the service."""

from collections.abc import Mapping, Sequence
from typing import Any


class CarrelError(Exception):
    """The base of every error of this package."""


class ConnectionFailed(CarrelError):
    """The service does not answer, or broke off."""


class UnexpectedReply(CarrelError):
    """The reply is not one of Carrel: no JSON, or another content type."""


class IngestionFailed(CarrelError):
    """A document could not be read; ``document`` is its last state, ``code`` a stable word."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document = document
        error = document.get("error") or {}
        self.code = str(error.get("code", "internal"))
        super().__init__(f"{document.get('source')}: {error.get('message', self.code)}")


class WaitTimeout(CarrelError):
    """A document was not ready in time; the service goes on with it."""


class ApiError(CarrelError):
    """The service refused a request (RFC 9457).

    ``status`` is the HTTP status, ``code`` a stable word, ``request_id`` what the operator finds it by in the log, and
    ``errors`` the fields that are wrong, as ``{"loc", "msg"}``.
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
        """Return what the detail does not say of a field error; None if the detail holds location and message."""
        location, message = ".".join(map(str, error.get("loc", ()))), str(error.get("msg"))
        if f"{location}: {message}" in self.detail:
            return None
        return f"at {location}" if message == self.detail else f"{location}: {message}"


class Unauthorized(ApiError):
    """401: no key, or one that is not valid."""


class Forbidden(ApiError):
    """403: the key may not do that."""


class NotFound(ApiError):
    """404: it does not exist, or this key may not see it."""


class Conflict(ApiError):
    """409: it is at odds with what is there."""


class TooLarge(ApiError):
    """413: more than may be sent."""


class UnsupportedMediaType(ApiError):
    """415: no parser reads this kind of file."""


class Invalid(ApiError):
    """422: ``errors`` says what is wrong with the request."""


class RateLimited(ApiError):
    """429: a rate or a quota is used up; ``retry_after`` is in seconds."""


class ServiceUnavailable(ApiError):
    """503: the service, or something that it needs, is down for now."""


BY_STATUS: Mapping[int, type[ApiError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    413: TooLarge,
    415: UnsupportedMediaType,
    422: Invalid,
    429: RateLimited,
    503: ServiceUnavailable,
}
