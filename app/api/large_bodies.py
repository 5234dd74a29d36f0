"""Large JSON bodies: how many of them are read at a time, because each takes several times its length in memory."""

from fastapi import Request

from app.errors import TooMany, Unavailable
from app.tenant_places import TenantPlaces

LARGE_BYTES = 256 * 1024
AT_ONCE = 4
AT_ONCE_A_TENANT = 2
WAIT_SECONDS = 10.0
# These bodies go to a file piece by piece.
STREAMED_TYPE, STREAMED_PATHS = "multipart/", ("/import",)


class TooManyLargeBodies(TooMany):
    """This tenant has as many requests with large JSON bodies at a time as it may; try again when one has ended."""

    code = "too_many_large_bodies"


class LargeBodiesBusy(Unavailable):
    """The service reads as many large JSON bodies as it can at a time; try again later."""

    code = "large_bodies_busy"


def large_body_places() -> TenantPlaces:
    """Create the places of one process for large bodies."""
    return TenantPlaces(AT_ONCE, AT_ONCE_A_TENANT, WAIT_SECONDS, TooManyLargeBodies, LargeBodiesBusy)


def is_large(request: Request) -> bool:
    """Return whether the body is read into memory and is large, or does not say how long it is."""
    headers = request.headers
    if request.method in ("GET", "HEAD") or headers.get("content-type", "").startswith(STREAMED_TYPE):
        return False
    if request.url.path.endswith(STREAMED_PATHS):
        return False
    declared = headers.get("content-length", "")
    return int(declared) > LARGE_BYTES if declared.isdecimal() else "transfer-encoding" in headers
