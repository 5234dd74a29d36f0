"""Translation of errors of the S3 client."""

from collections.abc import Iterator
from contextlib import contextmanager

from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

from app.object_store import ObjectStoreUnavailable


@contextmanager
def translate_errors() -> Iterator[None]:
    """Translate every error of the client into ObjectStoreUnavailable, with the error's code or class as the reason."""
    try:
        yield
    except ClientError as exc:
        raise ObjectStoreUnavailable(reason=get_error_code(exc)) from exc
    except (BotoCoreError, HTTPClientError) as exc:
        raise ObjectStoreUnavailable(reason=type(exc).__name__) from exc


def get_error_code(error: ClientError) -> str:
    """Return the error code of the server's reply."""
    return error.response.get("Error", {}).get("Code", "")


def get_status(error: ClientError) -> int:
    """Return the HTTP status of the server's reply."""
    return error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
