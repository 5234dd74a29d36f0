"""Object store in an S3 bucket: boto3, which blocks, runs on a separate thread pool."""

import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError
from s3transfer.exceptions import CancelledError as TransferCancelled

from app.object_store import (
    PIECE_BYTES,
    ObjectMissing,
    ObjectStoreUnavailable,
    StoredObject,
    validate_key,
    validate_prefix,
)
from app.object_store.content_disposition import format_content_disposition, sanitize_media_type
from app.object_store.s3_client import (
    PART_BYTES,
    PARTS_AT_ONCE,
    READ_TIMEOUT_SECONDS,
    S3Connection,
    create_s3_connection,
)
from app.object_store.s3_errors import get_error_code, get_status, translate_errors
from app.object_store.threads import StoreThreadPool

if TYPE_CHECKING:
    from botocore.response import StreamingBody
    from types_boto3_s3 import S3Client
    from types_boto3_s3.type_defs import ObjectIdentifierTypeDef

THREADS = 16
COPY_BYTES = 1024 * 1024
LINK_EXPIRY_SECONDS = 300
# The interval at which a thread that waits for a multipart upload checks for a cancellation.
CANCEL_POLL_SECONDS = 0.05
SIZE_RETRY_DELAYS_SECONDS = (0.05, 0.2, 0.75, 0.0)
# Statuses of servers without batch deletes or listings of uploads: Swift answers 400, other servers 405 or 501.
UNSUPPORTED_STATUSES = (400, 405, 501)


class S3ObjectStore:
    """Store in one existing bucket. The first call creates the client, which takes 0.3 seconds.

    Without ``region``, requests are signed for us-east-1. ``endpoint_url`` names a server other than AWS, with
    path-style addresses. Callers may not be able to reach that server. Links are therefore created only with
    ``public_endpoint_url``, the server's address for callers. ``read_timeout_seconds`` is the maximum time without
    data during a reply.
    """

    def __init__(
        self,
        bucket: str,
        *,
        endpoint_url: str | None,
        public_endpoint_url: str | None = None,
        access_key_id: str,
        secret_access_key: str,
        region: str | None,
        read_timeout_seconds: float = READ_TIMEOUT_SECONDS,
    ) -> None:
        self._bucket = bucket
        self._create_connection = partial(
            create_s3_connection,
            endpoint_url=endpoint_url,
            access_key_id=access_key_id,
            secret_access_key=secret_access_key,
            region=region,
            connections=THREADS + PARTS_AT_ONCE,
            read_timeout_seconds=read_timeout_seconds,
        )
        self._can_presign = endpoint_url is None or public_endpoint_url is not None
        self._public_endpoint_url = public_endpoint_url
        self._connection_lock = threading.Lock()
        self._connection: S3Connection | None = None
        self._signing_connection: S3Connection | None = None
        self._can_batch_delete = True
        self._threads = StoreThreadPool(THREADS)

    async def put(self, key: str, source: Path) -> None:
        await self._threads.run(partial(self._put, validate_key(key), source))

    async def get(self, key: str, target: Path) -> None:
        await self._threads.run(partial(self._get, validate_key(key), target))

    async def get_size(self, key: str) -> int:
        validate_key(key)
        return await self._threads.run(lambda _: self._get_size(key))

    async def stream(self, key: str, *, start: int, length: int) -> AsyncIterator[bytes]:
        if not length:
            await self.get_size(key)
            return
        body = await self._threads.run(
            partial(self._open, validate_key(key), start, length), discard=lambda late: late.close()
        )
        with closing(body):
            while length > 0:
                piece = await self._threads.run(partial(_read, body, min(length, PIECE_BYTES)))
                if not piece:
                    raise ObjectStoreUnavailable(
                        "The stored original is too short. Restore it or upload the file again."
                    )
                length -= len(piece)
                yield piece

    async def presign(self, key: str, *, filename: str, media_type: str, inline: bool) -> str | None:
        if not self._can_presign:
            return None
        parameters = {
            "Bucket": self._bucket,
            "Key": validate_key(key),
            "ResponseContentDisposition": format_content_disposition(filename, inline=inline),
            "ResponseContentType": sanitize_media_type(media_type),
        }
        return await self._threads.run(lambda _: self._presign(parameters))

    async def delete(self, key: str) -> None:
        validate_key(key)
        await self._threads.run(lambda _: self._delete(key))

    async def delete_prefix(self, prefix: str) -> int:
        return await self._threads.run(partial(self._delete_prefix, validate_prefix(prefix)))

    async def list_objects(self, prefix: str | None = None) -> AsyncIterator[StoredObject]:
        checked_prefix_text, after = "" if prefix is None else validate_prefix(prefix), ""
        while page := await self._threads.run(partial(self._list_page, checked_prefix_text, after)):
            for stored_object in page:
                yield stored_object
            after = page[-1].key

    async def abort_incomplete_uploads(self, prefix: str, *, before: datetime) -> int:
        validate_prefix(prefix)
        return await self._threads.run(lambda _: self._abort_uploads(prefix, before=before))

    async def check(self) -> None:
        await self._threads.run(lambda _: self._check())

    async def close(self) -> None:
        await self._threads.close()
        for connection in (self._connection, self._signing_connection):
            if connection is not None:
                connection.transfers.shutdown()
                connection.client.close()
        self._connection = self._signing_connection = None

    def _get_connection(self) -> S3Connection:
        with self._connection_lock:
            if self._connection is None:
                self._connection = self._create_connection()
            return self._connection

    def _get_signing_client(self) -> "S3Client":
        """Return the client that signs links, for the public endpoint: a signature covers the host name."""
        if self._public_endpoint_url is None:
            return self._get_connection().client
        with self._connection_lock:
            if self._signing_connection is None:
                self._signing_connection = self._create_connection(endpoint_url=self._public_endpoint_url)
            return self._signing_connection.client

    def _put(self, key: str, source: Path, stop: threading.Event) -> None:
        length = source.stat().st_size
        with translate_errors():
            if length <= PART_BYTES:
                with source.open("rb") as body:
                    self._get_connection().client.put_object(Bucket=self._bucket, Key=key, Body=body)
            else:
                self._put_multipart(key, source, stop)
        # A server or library that loses bytes can still report success, so the stored length is compared.
        if not stop.is_set() and self._get_size_after_put(key, stop) != length:
            raise ObjectStoreUnavailable("The object store stored fewer bytes than it received. Try again.")

    def _get_size_after_put(self, key: str, stop: threading.Event) -> int | None:
        """Return the stored length, or None if the object stays missing.

        During a parallel put, Swift reports a missing object in 1 of 2,400 cases, so the request is repeated.
        """
        for delay_seconds in SIZE_RETRY_DELAYS_SECONDS:
            with suppress(ObjectMissing):
                return self._get_size(key)
            stop.wait(delay_seconds)
        return None

    def _put_multipart(self, key: str, source: Path, stop: threading.Event) -> None:
        transfer = self._get_connection().transfers.upload(str(source), self._bucket, key)
        while not transfer.done():
            if stop.wait(CANCEL_POLL_SECONDS):
                transfer.cancel()
                break
        try:
            transfer.result()
        except TransferCancelled:
            if not stop.is_set():
                raise ObjectStoreUnavailable from None

    def _get(self, key: str, target: Path, stop: threading.Event) -> None:
        with closing(self._open(key, 0, None, stop)) as body:
            try:
                with target.open("wb") as writable:
                    while (piece := _read(body, COPY_BYTES, stop)) and not stop.is_set():
                        writable.write(piece)
            except BaseException:
                target.unlink(missing_ok=True)
                raise
        if stop.is_set():
            target.unlink(missing_ok=True)

    def _open(self, key: str, start: int, length: int | None, _: threading.Event) -> "StreamingBody":
        client = self._get_connection().client
        with self._raise_if_missing():
            if length is None:
                return client.get_object(Bucket=self._bucket, Key=key)["Body"]
            response = client.get_object(Bucket=self._bucket, Key=key, Range=f"bytes={start}-{start + length - 1}")
        if response["ContentLength"] != length:
            response["Body"].close()
            raise ObjectStoreUnavailable("The object store returned a different range than requested. Try again.")
        return response["Body"]

    def _get_size(self, key: str) -> int:
        client = self._get_connection().client
        with self._raise_if_missing():
            return client.head_object(Bucket=self._bucket, Key=key)["ContentLength"]

    def _presign(self, parameters: dict[str, str]) -> str:
        with translate_errors():
            return self._get_signing_client().generate_presigned_url(
                "get_object", Params=parameters, ExpiresIn=LINK_EXPIRY_SECONDS
            )

    def _delete(self, key: str) -> None:
        with translate_errors():
            try:
                self._get_connection().client.delete_object(Bucket=self._bucket, Key=key)
            except ClientError as exc:
                # AWS answers 204 for a missing object. Other servers, such as Swift, answer 404.
                if get_error_code(exc) not in ("404", "NoSuchKey"):
                    raise

    def _delete_prefix(self, prefix: str, stop: threading.Event) -> int:
        count = 0
        with translate_errors():
            self._abort_uploads(prefix, before=datetime.max.replace(tzinfo=UTC))
            pages = self._get_connection().client.get_paginator("list_objects_v2")
            for page in pages.paginate(Bucket=self._bucket, Prefix=prefix):
                objects: list[ObjectIdentifierTypeDef] = [{"Key": item["Key"]} for item in page.get("Contents", [])]
                for key in self._delete_batch(objects):
                    if stop.is_set():
                        return count
                    self._delete(key)
                count += len(objects)
                if stop.is_set():
                    return count
        return count

    def _delete_batch(self, objects: "Sequence[ObjectIdentifierTypeDef]") -> list[str]:
        """Delete a page of objects with one request if the server supports it. Return the keys to delete one by one."""
        if not objects or not self._can_batch_delete:
            return [item["Key"] for item in objects]
        batch = self._get_connection().client.delete_objects
        try:
            response = batch(Bucket=self._bucket, Delete={"Objects": list(objects), "Quiet": True})
        except ClientError as exc:
            if get_status(exc) not in UNSUPPORTED_STATUSES:
                raise
            self._can_batch_delete = False
            return [item["Key"] for item in objects]
        return [error["Key"] for error in response.get("Errors", [])]

    @translate_errors()
    def _abort_uploads(self, prefix: str, *, before: datetime) -> int:
        """Abort multipart uploads that a killed process left. Their parts are stored and billed, but never listed."""
        client = self._get_connection().client
        count = 0
        try:
            pages = client.get_paginator("list_multipart_uploads").paginate(Bucket=self._bucket, Prefix=prefix)
            for upload in (
                candidate for page in pages for candidate in page.get("Uploads", []) if candidate["Initiated"] < before
            ):
                client.abort_multipart_upload(Bucket=self._bucket, Key=upload["Key"], UploadId=upload["UploadId"])
                count += 1
        except ClientError as exc:
            if get_status(exc) not in UNSUPPORTED_STATUSES and get_error_code(exc) != "NoSuchUpload":
                raise
        return count

    def _list_page(self, prefix: str, after: str, _: threading.Event) -> list[StoredObject]:
        """Return the next page of objects, whose keys come after ``after`` in alphabetical order."""
        with translate_errors():
            response = self._get_connection().client.list_objects_v2(
                Bucket=self._bucket, Prefix=prefix, StartAfter=after
            )
        return [StoredObject(item["Key"], item["LastModified"]) for item in response.get("Contents", [])]

    def _check(self) -> None:
        with translate_errors():
            self._get_connection().client.head_bucket(Bucket=self._bucket)

    @contextmanager
    def _raise_if_missing(self) -> Iterator[None]:
        """Raise ObjectMissing for status 404 if the bucket exists.

        A reply to HEAD has no body, so its status 404 can mean a missing object or a missing bucket.
        """
        with translate_errors():
            try:
                yield
            except ClientError as exc:
                if get_error_code(exc) not in ("404", "NoSuchKey"):
                    raise
                self._get_connection().client.head_bucket(Bucket=self._bucket)
                raise ObjectMissing from exc


def _read(body: "StreamingBody", length: int, _: threading.Event) -> bytes:
    with translate_errors():
        return body.read(length)
