"""boto3 client of the object store: timeouts, retries and part sizes, independent of AWS profiles."""

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import botocore.session
from boto3.s3.transfer import TransferConfig, create_transfer_manager
from boto3.session import Session
from botocore.config import Config
from botocore.exceptions import ReadTimeoutError

if TYPE_CHECKING:
    from s3transfer.manager import TransferManager
    from types_boto3_s3 import S3Client

PART_BYTES = 16 * 1024 * 1024
PARTS_AT_ONCE = 4
# Timeouts: to connect, and to wait for a reply or its next bytes. A complete request is not sent again after a timeout,
# so a frozen server delays a call only once. A slow transfer of a part does not time out while bytes arrive.
CONNECT_TIMEOUT_SECONDS, READ_TIMEOUT_SECONDS = 3, 15


@dataclass(frozen=True, slots=True)
class S3Connection:
    """A client and its manager of large transfers. Both are safe to use from many threads."""

    client: "S3Client"
    transfers: "TransferManager"


def create_s3_connection(
    *,
    endpoint_url: str | None,
    access_key_id: str,
    secret_access_key: str,
    region: str | None,
    connections: int,
    read_timeout_seconds: float = READ_TIMEOUT_SECONDS,
) -> S3Connection:
    """Create the client without a request to the server. The function blocks for about 0.3 seconds.

    Args:
        endpoint_url: The server's address in path style, or None for AWS.
        access_key_id: The id of the access key.
        secret_access_key: The secret of the access key.
        region: The region for signatures, by default us-east-1.
        connections: The maximum number of connections.
        read_timeout_seconds: The maximum time without data from the server during a reply.

    Returns:
        The connection. Errors of botocore are raised for settings that are not valid.
    """
    # Many servers with an S3 API do not support the newer checksums in trailers.
    checksums: Literal["when_required", "when_supported"] = "when_required" if endpoint_url else "when_supported"
    config = Config(
        connect_timeout=CONNECT_TIMEOUT_SECONDS,
        read_timeout=read_timeout_seconds,
        retries={"mode": "standard", "total_max_attempts": 3},
        signature_version="s3v4",
        s3={"addressing_style": "path" if endpoint_url else "auto"},
        max_pool_connections=connections,
        request_checksum_calculation=checksums,
        response_checksum_validation=checksums,
    )
    # The service has its own settings. An AWS profile or its endpoint must not change or break the store.
    no_config_files = dict.fromkeys(("config_file", "credentials_file"), (None, None, os.devnull, None))
    session = botocore.session.Session(
        session_vars={
            **no_config_files,
            "profile": (None, None, None, None),
            "ignore_configured_endpoint_urls": (None, None, True, None),
        }
    )
    client = Session(
        aws_access_key_id=access_key_id,
        aws_secret_access_key=secret_access_key,
        region_name=region or "us-east-1",
        botocore_session=session,
    ).client("s3", endpoint_url=endpoint_url, config=config)
    client.meta.events.register_first("needs-retry.s3", _raise_read_timeout)
    transfers = TransferConfig(
        multipart_threshold=PART_BYTES,
        multipart_chunksize=PART_BYTES,
        max_concurrency=PARTS_AT_ONCE,
        preferred_transfer_client="classic",
    )
    return S3Connection(client, create_transfer_manager(client, transfers))


def _raise_read_timeout(caught_exception: Exception | None = None, **_: Any) -> None:
    """Raise the error of a request that timed out. Other failures follow the retry rules."""
    if isinstance(caught_exception, ReadTimeoutError):
        raise caught_exception
