"""The errors of an S3 server, told apart and translated into ours."""

from collections.abc import Iterator
from contextlib import contextmanager

from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

from app.object_store import ObjectStoreUnavailable


@contextmanager
def translate_errors() -> Iterator[None]:
    """Every error of the client's as ObjectStoreUnavailable, with the code that says why and nothing more."""
    try:
        yield
    except ClientError as exc:
        raise ObjectStoreUnavailable(reason=get_error_code(exc)) from exc
    except (BotoCoreError, HTTPClientError) as exc:
        raise ObjectStoreUnavailable(reason=type(exc).__name__) from exc


def get_error_code(error: ClientError) -> str:
    """The server's word for it."""
    return error.response.get("Error", {}).get("Code", "")


def get_status(error: ClientError) -> int:
    """The status of the reply."""
    return error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
