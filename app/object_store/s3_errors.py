"""The errors of an S3 server, told apart and translated into ours."""

from collections.abc import Iterator
from contextlib import contextmanager

from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

from app.object_store import ObjectStoreUnavailable


@contextmanager
def translated() -> Iterator[None]:
    """Every error of the client's as ObjectStoreUnavailable, with the code that says why and nothing more."""
    try:
        yield
    except ClientError as exc:
        raise ObjectStoreUnavailable(reason=code_of(exc)) from exc
    except (BotoCoreError, HTTPClientError) as exc:
        raise ObjectStoreUnavailable(reason=type(exc).__name__) from exc


def code_of(error: ClientError) -> str:
    """The server's word for it."""
    return error.response.get("Error", {}).get("Code", "")


def status_of(error: ClientError) -> int:
    """The status of the reply."""
    return error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
