"""Base classes of all errors. Each API maps them to its error format; packages derive classes with stable codes.

``AppError`` has ten kinds, here with their HTTP status:

- InvalidInputError (422): the request is well-formed but not valid.
- UnauthorizedError (401): the credential is missing or not valid.
- ForbiddenError (403): the credential does not allow the request.
- NotFoundError (404): the object does not exist, or the credential may not see it.
- ConflictError (409): the state of the object does not allow the request.
- PreconditionFailedError (412): the object has changed since the caller read it.
- TooLargeError (413): something is over a limit of size.
- UnsupportedMediaTypeError (415): no parser reads the media type.
- TooManyRequestsError (429): something is over a limit of rate or number; a later request can succeed.
- UnavailableError (503): a dependency does not answer; a later request can succeed. JobPostponed is one for jobs.
"""

from datetime import datetime
from typing import Any, ClassVar


class AppError(Exception):
    """An unknown error occurred."""

    code: ClassVar[str] = "internal"

    def __init__(self, message: str | None = None, /, **fields: Any) -> None:
        self.message = message or (type(self).__doc__ or "").strip()
        self.fields = fields
        super().__init__(self.message)


class InvalidInputError(AppError):
    """The request is not valid."""

    code = "invalid"

    def __init__(self, message: str | None = None, /, *, loc: tuple[str | int, ...] = (), **fields: Any) -> None:
        super().__init__(message, **fields)
        self.loc = loc


class UnauthorizedError(AppError):
    """The API key is missing or not valid. Send a valid key."""

    code = "unauthorized"


class ForbiddenError(AppError):
    """The role or the restrictions of the API key do not allow the request."""

    code = "forbidden"


class NotFoundError(AppError):
    """The object does not exist."""

    code = "not_found"


class ConflictError(AppError):
    """The state of the object does not allow the request."""

    code = "conflict"


class PreconditionFailedError(AppError):
    """The object has changed since it was read. Read it again, and send its new ETag."""

    code = "precondition_failed"


class TooLargeError(AppError):
    """The request is over a limit of size."""

    code = "too_large"


class UnsupportedMediaTypeError(AppError):
    """No parser reads the media type."""

    code = "unsupported_media_type"


class TooManyRequestsError(AppError):
    """Too many requests. Try again later."""

    code = "too_many_requests"

    def __init__(self, message: str | None = None, /, *, retry_after: float = 1.0, **fields: Any) -> None:
        super().__init__(message, **fields)
        self.retry_after = retry_after


class UnavailableError(AppError):
    """A service that the request needs does not answer. Try again."""

    code = "unavailable"

    def __init__(self, message: str | None = None, /, *, retry_after: float = 2.0, **fields: Any) -> None:
        super().__init__(message, **fields)
        self.retry_after = retry_after


class JobPostponed(UnavailableError):
    """The job is too early. It runs again at a known time, and the attempt does not count."""

    retryable = True

    def __init__(self, until: datetime) -> None:
        self.until = until
        super().__init__()
