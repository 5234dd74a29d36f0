"""The error tree: nine kinds that every door maps to its own envelope; rooms subclass a kind with a stable code.

AppError
├── InvalidInputError      the request is well-formed but wrong (422)
├── Unauthorized      no credential, or one that is not valid (401)
├── Forbidden         the credential may not do this (403)
├── NotFound          nothing there that this credential may see (404)
├── Conflict          the state of the thing forbids it (409)
├── TooLargeError          over a limit (413)
├── Unsupported       a media type nobody parses (415)
├── TooManyRequestsError           more than a limit in time allows; later it works (429)
└── Unavailable       a dependency is down or slow; worth trying again (503)
    └── Postponed     of a job: it is too early, and known until when
"""

from datetime import datetime
from typing import Any, ClassVar


class AppError(Exception):
    """Something went wrong."""

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
    """A valid API key is needed."""

    code = "unauthorized"


class ForbiddenError(AppError):
    """This key may not do that."""

    code = "forbidden"


class NotFoundError(AppError):
    """There is no such thing here."""

    code = "not_found"


class ConflictError(AppError):
    """The present state does not allow that."""

    code = "conflict"


class TooLargeError(AppError):
    """That is over a limit."""

    code = "too_large"


class UnsupportedMediaTypeError(AppError):
    """No parser reads this media type."""

    code = "unsupported_media_type"


class TooManyRequestsError(AppError):
    """Too many requests; try again later."""

    code = "too_many_requests"

    def __init__(self, message: str | None = None, /, *, retry_after: float = 1.0, **fields: Any) -> None:
        super().__init__(message, **fields)
        self.retry_after = retry_after


class UnavailableError(AppError):
    """Something that this needs is not answering; try again."""

    code = "unavailable"

    def __init__(self, message: str | None = None, /, *, retry_after: float = 2.0, **fields: Any) -> None:
        super().__init__(message, **fields)
        self.retry_after = retry_after


class JobPostponed(UnavailableError):
    """It is too early for this; it is tried again at the time that is known, and no attempt is counted."""

    retryable = True

    def __init__(self, until: datetime) -> None:
        self.until = until
        super().__init__()
