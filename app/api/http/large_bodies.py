"""Limits on the number of large JSON bodies in memory at once. Each body takes several times its length in memory."""

from fastapi import Request

from app.errors import TooManyRequestsError, UnavailableError
from app.tenant_slots import TenantSlots

LARGE_BODY_BYTES = 256 * 1024
MAX_CONCURRENT = 4
MAX_CONCURRENT_PER_TENANT = 2
WAIT_TIMEOUT_SECONDS = 10.0
# The service streams these bodies to a file, so they do not count.
STREAMED_TYPE, STREAMED_PATHS = "multipart/", ("/import",)


class TooManyLargeBodies(TooManyRequestsError):
    """This tenant sends too many large JSON bodies at once. Try again when one of the requests has ended."""

    code = "too_many_large_bodies"


class LargeBodiesBusy(UnavailableError):
    """The service reads too many large JSON bodies at once. Try again later."""

    code = "large_bodies_busy"


def create_large_body_slots() -> TenantSlots:
    """Create the slots of one process for large bodies."""
    return TenantSlots(
        MAX_CONCURRENT, MAX_CONCURRENT_PER_TENANT, WAIT_TIMEOUT_SECONDS, TooManyLargeBodies, LargeBodiesBusy
    )


def has_large_body(request: Request) -> bool:
    """Return whether the service reads the body into memory, and the body is large or of unknown length.

    Args:
        request: The request; only its method, path and headers are read.
    """
    headers = request.headers
    if request.method in ("GET", "HEAD") or headers.get("content-type", "").startswith(STREAMED_TYPE):
        return False
    if request.url.path.endswith(STREAMED_PATHS):
        return False
    declared = headers.get("content-length", "")
    return int(declared) > LARGE_BODY_BYTES if declared.isdecimal() else "transfer-encoding" in headers
