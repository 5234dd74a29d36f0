"""Objects in an S3 bucket, through one boto3 client and threads of its own."""

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
    checked_key,
    checked_prefix,
)
from app.object_store.disposition import content_disposition, safe_media_type
from app.object_store.s3_client import PART_BYTES, PARTS_AT_ONCE, READ_TIMEOUT_SECONDS, S3Connection, connect
from app.object_store.s3_errors import code_of, status_of, translated
from app.object_store.threads import StoreThreads

if TYPE_CHECKING:
    from botocore.response import StreamingBody
    from types_boto3_s3 import S3Client
    from types_boto3_s3.type_defs import ObjectIdentifierTypeDef

THREADS = 16
COPY_BYTES = 1024 * 1024
LINK_SECONDS = 300
# How often a thread that waits for a multipart upload looks whether its caller still wants it.
CANCEL_POLL_SECONDS = 0.05
LOOK_AGAIN_SECONDS = (0.05, 0.2, 0.75, 0.0)
# What servers without batch deletes or upload listings answer: Swift 400, others not implemented or not allowed.
NOT_OFFERED = (400, 405, 501)


class S3ObjectStore:
    """One bucket, made beforehand; the client is made by the first call that needs it, once (it takes 0.3 s).

    Without ``region`` it signs for us-east-1; ``endpoint_url`` means another server than AWS, spoken to in path style.
    Whether callers can reach that one is not known: it makes links only with ``public_endpoint_url``, the server's
    address for them. ``silence_seconds`` is the longest silence of the server during a reply.
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
        silence_seconds: float = READ_TIMEOUT_SECONDS,
    ) -> None:
        self._bucket = bucket
        self._connect = partial(
            connect,
            endpoint_url=endpoint_url,
            access_key_id=access_key_id,
            secret_access_key=secret_access_key,
            region=region,
            connections=THREADS + PARTS_AT_ONCE,
            silence_seconds=silence_seconds,
        )
        self._makes_links = endpoint_url is None or public_endpoint_url is not None
        self._public_endpoint_url = public_endpoint_url
        self._connecting = threading.Lock()
        self._connection: S3Connection | None = None
        self._signing: S3Connection | None = None
        self._batch_deletes = True
        self._threads = StoreThreads(THREADS)

    async def put(self, key: str, source: Path) -> None:
        await self._threads.run(partial(self._put, checked_key(key), source))

    async def get(self, key: str, target: Path) -> None:
        await self._threads.run(partial(self._get, checked_key(key), target))

    async def size(self, key: str) -> int:
        checked_key(key)
        return await self._threads.run(lambda _: self._size(key))

    async def stream(self, key: str, *, start: int, length: int) -> AsyncIterator[bytes]:
        if not length:
            await self.size(key)
            return
        body = await self._threads.run(
            partial(self._open, checked_key(key), start, length), discard=lambda late: late.close()
        )
        with closing(body):
            while length > 0:
                piece = await self._threads.run(partial(_read, body, min(length, PIECE_BYTES)))
                if not piece:
                    raise ObjectStoreUnavailable("The stored original is shorter than it should be.")
                length -= len(piece)
                yield piece

    async def presign(self, key: str, *, filename: str, media_type: str, inline: bool) -> str | None:
        if not self._makes_links:
            return None
        parameters = {
            "Bucket": self._bucket,
            "Key": checked_key(key),
            "ResponseContentDisposition": content_disposition(filename, inline=inline),
            "ResponseContentType": safe_media_type(media_type),
        }
        return await self._threads.run(lambda _: self._presign(parameters))

    async def delete(self, key: str) -> None:
        checked_key(key)
        await self._threads.run(lambda _: self._delete(key))

    async def delete_prefix(self, prefix: str) -> int:
        return await self._threads.run(partial(self._delete_below, checked_prefix(prefix)))

    async def list_objects(self, prefix: str | None = None) -> AsyncIterator[StoredObject]:
        below, after = "" if prefix is None else checked_prefix(prefix), ""
        while page := await self._threads.run(partial(self._page, below, after)):
            for found in page:
                yield found
            after = page[-1].key

    async def discard_unfinished(self, prefix: str, *, before: datetime) -> int:
        checked_prefix(prefix)
        return await self._threads.run(lambda _: self._abort_uploads(prefix, before=before))

    async def check(self) -> None:
        await self._threads.run(lambda _: self._check())

    async def close(self) -> None:
        await self._threads.close()
        for connection in (self._connection, self._signing):
            if connection is not None:
                connection.transfers.shutdown()
                connection.client.close()
        self._connection = self._signing = None

    def _connected(self) -> S3Connection:
        with self._connecting:
            if self._connection is None:
                self._connection = self._connect()
            return self._connection

    def _signs_with(self) -> "S3Client":
        """A client that signs for the address that callers use; a signature covers the host's name."""
        if self._public_endpoint_url is None:
            return self._connected().client
        with self._connecting:
            if self._signing is None:
                self._signing = self._connect(endpoint_url=self._public_endpoint_url)
            return self._signing.client

    def _put(self, key: str, source: Path, stop: threading.Event) -> None:
        length = source.stat().st_size
        with translated():
            if length <= PART_BYTES:
                with source.open("rb") as body:
                    self._connected().client.put_object(Bucket=self._bucket, Key=key, Body=body)
            else:
                self._put_in_parts(key, source, stop)
        # A server or library that loses bytes reports success all the same: only the stored length tells.
        if not stop.is_set() and self._size_after_put(key, stop) != length:
            raise ObjectStoreUnavailable("The object store kept fewer bytes than it was given.")

    def _size_after_put(self, key: str, stop: threading.Event) -> int | None:
        """None where nothing is there, also after a while: in the moment of another put Swift says so (1 of 2,400)."""
        for pause in LOOK_AGAIN_SECONDS:
            with suppress(ObjectMissing):
                return self._size(key)
            stop.wait(pause)
        return None

    def _put_in_parts(self, key: str, source: Path, stop: threading.Event) -> None:
        transfer = self._connected().transfers.upload(str(source), self._bucket, key)
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
        client = self._connected().client
        with self._missing_told_apart():
            if length is None:
                return client.get_object(Bucket=self._bucket, Key=key)["Body"]
            answer = client.get_object(Bucket=self._bucket, Key=key, Range=f"bytes={start}-{start + length - 1}")
        if answer["ContentLength"] != length:
            answer["Body"].close()
            raise ObjectStoreUnavailable("The object store answered with another range than the one asked for.")
        return answer["Body"]

    def _size(self, key: str) -> int:
        client = self._connected().client
        with self._missing_told_apart():
            return client.head_object(Bucket=self._bucket, Key=key)["ContentLength"]

    def _presign(self, parameters: dict[str, str]) -> str:
        with translated():
            return self._signs_with().generate_presigned_url("get_object", Params=parameters, ExpiresIn=LINK_SECONDS)

    def _delete(self, key: str) -> None:
        with translated():
            try:
                self._connected().client.delete_object(Bucket=self._bucket, Key=key)
            except ClientError as exc:
                # AWS answers 204 for a missing object, others (Swift) 404.
                if code_of(exc) not in ("404", "NoSuchKey"):
                    raise

    def _delete_below(self, prefix: str, stop: threading.Event) -> int:
        count = 0
        with translated():
            self._abort_uploads(prefix, before=datetime.max.replace(tzinfo=UTC))
            pages = self._connected().client.get_paginator("list_objects_v2")
            for page in pages.paginate(Bucket=self._bucket, Prefix=prefix):
                found: list[ObjectIdentifierTypeDef] = [{"Key": item["Key"]} for item in page.get("Contents", [])]
                for key in self._not_deleted_at_once(found):
                    if stop.is_set():
                        return count
                    self._delete(key)
                count += len(found)
                if stop.is_set():
                    return count
        return count

    def _not_deleted_at_once(self, found: "Sequence[ObjectIdentifierTypeDef]") -> list[str]:
        """Delete a page of objects in one request where the server can; returns the keys left for single requests."""
        if not found or not self._batch_deletes:
            return [item["Key"] for item in found]
        batch = self._connected().client.delete_objects
        try:
            answer = batch(Bucket=self._bucket, Delete={"Objects": list(found), "Quiet": True})
        except ClientError as exc:
            if status_of(exc) not in NOT_OFFERED:
                raise
            self._batch_deletes = False
            return [item["Key"] for item in found]
        return [error["Key"] for error in answer.get("Errors", [])]

    @translated()
    def _abort_uploads(self, prefix: str, *, before: datetime) -> int:
        """End multipart uploads that a killed process left: their parts are kept, and paid for, but never listed."""
        client = self._connected().client
        count = 0
        try:
            pages = client.get_paginator("list_multipart_uploads").paginate(Bucket=self._bucket, Prefix=prefix)
            for upload in (one for page in pages for one in page.get("Uploads", []) if one["Initiated"] < before):
                client.abort_multipart_upload(Bucket=self._bucket, Key=upload["Key"], UploadId=upload["UploadId"])
                count += 1
        except ClientError as exc:
            if status_of(exc) not in NOT_OFFERED and code_of(exc) != "NoSuchUpload":
                raise
        return count

    def _page(self, below: str, after: str, _: threading.Event) -> list[StoredObject]:
        """The next keys in order."""
        with translated():
            answer = self._connected().client.list_objects_v2(Bucket=self._bucket, Prefix=below, StartAfter=after)
        return [StoredObject(item["Key"], item["LastModified"]) for item in answer.get("Contents", [])]

    def _check(self) -> None:
        with translated():
            self._connected().client.head_bucket(Bucket=self._bucket)

    @contextmanager
    def _missing_told_apart(self) -> Iterator[None]:
        """A reply to HEAD has no body: 404 means a missing object only where the bucket is there."""
        with translated():
            try:
                yield
            except ClientError as exc:
                if code_of(exc) not in ("404", "NoSuchKey"):
                    raise
                self._connected().client.head_bucket(Bucket=self._bucket)
                raise ObjectMissing from exc


def _read(body: "StreamingBody", length: int, _: threading.Event) -> bytes:
    with translated():
        return body.read(length)
