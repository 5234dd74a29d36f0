"""S3 object store: parts, links, and servers that are down, partial or unusual."""

import asyncio
import os
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from app.object_store import ObjectMissing, ObjectStoreUnavailable, StoredObject
from app.object_store.s3 import S3ObjectStore
from harness.protocol_servers.s3 import ProxiedRequest, S3Proxy, s3_proxy
from tests.fixtures.s3 import CROWD, MotoProcess, S3Server
from tests.object_store.conftest import S3Opener

AFile = Callable[[bytes], Path]
BIG = 33 * 1024 * 1024  # three parts
SILENCE_SECONDS = 6.0
needs_no_signature = pytest.mark.skipif(
    os.environ.get("S3_SERVER") == "swift", reason="a server that checks signatures refuses what was changed on the way"
)


@pytest.fixture
def awkward(s3_server: S3Server) -> Iterator[S3Proxy]:
    with s3_proxy(s3_server.endpoint_url) as server:
        yield server


def keys_below(server: S3Server, prefix: str) -> list[str]:
    pages = server.client.get_paginator("list_objects_v2").paginate(Bucket=server.bucket, Prefix=prefix)
    return [item["Key"] for page in pages for item in page.get("Contents", [])]


def uploads_below(server: S3Server, prefix: str) -> list[str]:
    answer = server.client.list_multipart_uploads(Bucket=server.bucket, Prefix=prefix)
    return [upload["Key"] for upload in answer.get("Uploads", [])]


async def outcomes(store: S3ObjectStore, a_file: AFile, target: Path) -> list[BaseException]:
    async def streamed() -> list[bytes]:
        return [piece async for piece in store.stream("t/d/1", start=0, length=1)]

    async def listed() -> list[StoredObject]:
        return [found async for found in store.list_objects()]

    calls: list[Awaitable[object]] = [
        store.put("t/d/1", a_file(b"x")),
        store.get("t/d/1", target),
        store.get_size("t/d/1"),
        streamed(),
        store.delete("t/d/1"),
        store.delete_prefix("t/"),
        store.abort_incomplete_uploads("t/", before=datetime.now(UTC)),
        listed(),
        store.check(),
    ]
    found = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 60)
    return [outcome for outcome in found if isinstance(outcome, BaseException)]


async def test_wrong_bucket_is_unavailable_and_never_missing(open_s3: S3Opener, a_file: AFile, tmp_path: Path) -> None:
    store = open_s3(bucket="not-there")
    found = await outcomes(store, a_file, tmp_path / "target")
    assert [type(error) for error in found] == [ObjectStoreUnavailable] * 9
    await store.close()


async def test_unreachable_server_is_unavailable(
    open_s3: S3Opener, s3_server: S3Server, a_file: AFile, tmp_path: Path
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        store = open_s3(endpoint_url=f"http://127.0.0.1:{taken.getsockname()[1]}")
        found = await outcomes(store, a_file, tmp_path / "target")
    assert [type(error) for error in found] == [ObjectStoreUnavailable] * 9
    for error in found:
        told = f"{error!r} {vars(error)} {error.__cause__!r}"
        assert s3_server.secret_access_key not in told
        assert s3_server.access_key_id not in told
    assert not (tmp_path / "target").exists()
    await store.close()


async def test_frozen_server_every_call_ends_after_one_timeout(
    open_s3: S3Opener, freezable_s3: MotoProcess, a_file: AFile, tmp_path: Path
) -> None:
    store = open_s3(endpoint_url=freezable_s3.endpoint, silence_seconds=SILENCE_SECONDS)
    await store.put("t/d/1", a_file(b"x"))
    freezable_s3.freeze()
    started = time.monotonic()
    big = asyncio.create_task(store.put("t/d/2", a_file(bytes(BIG))))
    found = await outcomes(store, a_file, tmp_path / "target")
    assert [type(error) for error in found] == [ObjectStoreUnavailable] * 9
    with pytest.raises(ObjectStoreUnavailable):
        await big
    assert time.monotonic() - started < 3 * SILENCE_SECONDS  # one timeout, not one for each of three attempts
    freezable_s3.thaw()
    await store.put("t/d/1", a_file(b"xy"))
    assert await store.get_size("t/d/1") == 2
    await store.close()


async def test_server_frozen_between_parts_upload_ends(
    open_s3: S3Opener, freezable_s3: MotoProcess, a_file: AFile
) -> None:
    def freeze_at_second_part(request: ProxiedRequest) -> None:
        if "partNumber=2" in request.path:
            freezable_s3.freeze()

    with s3_proxy(freezable_s3.endpoint) as server:
        server.rule = freeze_at_second_part
        store = open_s3(endpoint_url=server.url, silence_seconds=SILENCE_SECONDS)
        with pytest.raises(ObjectStoreUnavailable):
            await store.put("t/d/2", a_file(bytes(BIG)))
        freezable_s3.thaw()
        await store.close()


async def test_refused_request_is_unavailable_with_reason(
    open_s3: S3Opener, awkward: S3Proxy, a_file: AFile, tmp_path: Path
) -> None:
    awkward.rule = lambda _: 403
    store = open_s3(endpoint_url=awkward.url)
    found = await outcomes(store, a_file, tmp_path / "target")
    assert [type(error) for error in found] == [ObjectStoreUnavailable] * 9
    with pytest.raises(ObjectStoreUnavailable) as caught:
        await store.get("t/d/1", tmp_path / "target")
    assert caught.value.fields == {"reason": "AccessDenied"}
    await store.close()


async def test_cancelled_put_aborts_uploaded_parts(
    open_s3: S3Opener, awkward: S3Proxy, s3_server: S3Server, tenant: str, a_file: AFile
) -> None:
    arrived, go_on = threading.Event(), threading.Event()

    def hold_second_part(request: ProxiedRequest) -> None:
        if "partNumber=2" in request.path:
            arrived.set()
            go_on.wait(30)

    awkward.rule = hold_second_part
    store = open_s3(endpoint_url=awkward.url)
    task = asyncio.create_task(store.put(f"{tenant}/d/1", a_file(bytes(BIG))))
    assert await asyncio.to_thread(arrived.wait, 30)
    assert uploads_below(s3_server, tenant) == [f"{tenant}/d/1"]
    task.cancel()
    await asyncio.sleep(0.2)
    assert not task.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert uploads_below(s3_server, tenant) == []
    assert keys_below(s3_server, tenant) == []
    await store.close()


async def test_failed_put_aborts_uploaded_parts(
    open_s3: S3Opener, awkward: S3Proxy, s3_server: S3Server, tenant: str, a_file: AFile
) -> None:
    awkward.rule = lambda request: 403 if "partNumber=3" in request.path else None
    store = open_s3(endpoint_url=awkward.url)
    with pytest.raises(ObjectStoreUnavailable):
        await store.put(f"{tenant}/d/1", a_file(bytes(BIG)))
    assert uploads_below(s3_server, tenant) == []
    assert keys_below(s3_server, tenant) == []
    await store.close()


async def test_a_cancelled_get_leaves_no_target(
    open_s3: S3Opener, awkward: S3Proxy, tenant: str, a_file: AFile, tmp_path: Path
) -> None:
    arrived, go_on = threading.Event(), threading.Event()

    def hold_get(request: ProxiedRequest) -> None:
        if request.method == "GET":
            arrived.set()
            go_on.wait(30)

    awkward.rule = hold_get
    store = open_s3(endpoint_url=awkward.url)
    await store.put(f"{tenant}/d/1", a_file(b"x" * 100))
    task = asyncio.create_task(store.get(f"{tenant}/d/1", tmp_path / "target"))
    assert await asyncio.to_thread(arrived.wait, 30)
    task.cancel()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not (tmp_path / "target").exists()
    await store.close()


@needs_no_signature
async def test_lost_bytes_are_detected(open_s3: S3Opener, awkward: S3Proxy, tenant: str, a_file: AFile) -> None:
    def lose(request: ProxiedRequest) -> None:
        if request.method == "PUT":
            request.body = request.body[:-1]

    awkward.rule = lose
    store = open_s3(endpoint_url=awkward.url)
    for length in (1000, BIG // 2 + 1):
        with pytest.raises(ObjectStoreUnavailable, match="fewer bytes"):
            await store.put(f"{tenant}/d/1", a_file(bytes(length)))
    await store.close()


async def test_object_invisible_after_put_is_checked_again(
    open_s3: S3Opener, awkward: S3Proxy, tenant: str, a_file: AFile
) -> None:
    looks: list[str] = []

    def hide(request: ProxiedRequest) -> int | None:
        looks.extend([request.path] if request.method == "HEAD" and "/d/" in request.path else [])
        return 404 if request.method == "HEAD" and looks.count(request.path) in hidden else None

    awkward.rule = hide
    store = open_s3(endpoint_url=awkward.url)
    hidden = range(1, 3)
    await store.put(f"{tenant}/d/1", a_file(b"x"))
    assert await store.get_size(f"{tenant}/d/1") == 1
    hidden = range(1, 100)
    with pytest.raises(ObjectStoreUnavailable, match="fewer bytes"):
        await store.put(f"{tenant}/d/2", a_file(b"x"))
    await store.close()


@needs_no_signature
async def test_server_that_ignores_ranges_is_detected(
    open_s3: S3Opener, awkward: S3Proxy, tenant: str, a_file: AFile
) -> None:
    def forget(request: ProxiedRequest) -> None:
        request.headers.pop("Range", None)

    awkward.rule = forget
    store = open_s3(endpoint_url=awkward.url)
    await store.put(f"{tenant}/d/1", a_file(bytes(1000)))
    with pytest.raises(ObjectStoreUnavailable, match="different range"):
        await anext(store.stream(f"{tenant}/d/1", start=10, length=20))
    await store.close()


async def test_delete_prefix_of_more_than_one_page_is_complete(s3_store: S3ObjectStore, s3_server: S3Server) -> None:
    assert len(keys_below(s3_server, "crowd/")) == CROWD
    listed = [found.key async for found in s3_store.list_objects()]
    assert sorted(key for key in listed if key.startswith("crowd/")) == sorted(keys_below(s3_server, "crowd/"))
    assert await s3_store.delete_prefix("crowd/") == CROWD
    assert keys_below(s3_server, "crowd/") == []


@pytest.mark.parametrize("status", [400, 501])
async def test_server_without_batch_delete_is_supported(
    open_s3: S3Opener, awkward: S3Proxy, s3_server: S3Server, tenant: str, a_file: AFile, status: int
) -> None:
    awkward.rule = lambda request: status if request.method == "POST" else None
    store = open_s3(endpoint_url=awkward.url)
    for _ in range(2):
        for n in range(3):
            await store.put(f"{tenant}/d/{n}", a_file(b"x"))
        assert await store.delete_prefix(f"{tenant}/") == 3
        assert keys_below(s3_server, tenant) == []
    assert sum(line.startswith("POST") for line in awkward.request_lines) == 1
    await store.close()


async def test_server_without_upload_list_is_supported(
    open_s3: S3Opener, awkward: S3Proxy, tenant: str, a_file: AFile
) -> None:
    awkward.rule = lambda request: 501 if "uploads" in request.path else None
    store = open_s3(endpoint_url=awkward.url)
    await store.put(f"{tenant}/d/1", a_file(b"x"))
    assert await store.delete_prefix(f"{tenant}/") == 1
    await store.close()


@pytest.mark.parametrize(("status", "raised"), [(404, False), (403, True)])
async def test_delete_ignores_only_missing_object(
    open_s3: S3Opener, awkward: S3Proxy, tenant: str, status: int, raised: bool
) -> None:
    awkward.rule = lambda request: status if request.method == "DELETE" else None
    store = open_s3(endpoint_url=awkward.url)
    with pytest.raises(ObjectStoreUnavailable) if raised else nullcontext():
        await store.delete(f"{tenant}/d/1")
    await store.close()


async def test_delete_prefix_aborts_uploads_of_killed_process(
    s3_store: S3ObjectStore, s3_server: S3Server, tenant: str
) -> None:
    s3_server.client.create_multipart_upload(Bucket=s3_server.bucket, Key=f"{tenant}/d/1")
    assert await s3_store.delete_prefix(f"{tenant}/") == 0
    assert uploads_below(s3_server, tenant) == []


async def test_abort_incomplete_uploads_aborts_old_uploads(
    s3_store: S3ObjectStore, s3_server: S3Server, tenant: str
) -> None:
    for key in (f"{tenant}/d/1", f"{tenant}-beside/d/1"):
        s3_server.client.create_multipart_upload(Bucket=s3_server.bucket, Key=key)
    # moto dates every upload to 2010, Swift to the next second
    now, long_ago = datetime.now(UTC) + timedelta(minutes=1), datetime(2000, 1, 1, tzinfo=UTC)
    assert await s3_store.abort_incomplete_uploads(f"{tenant}/", before=long_ago) == 0
    assert await s3_store.abort_incomplete_uploads(f"{tenant}/", before=now) == 1
    assert uploads_below(s3_server, tenant) == [f"{tenant}-beside/d/1"]
    assert await s3_store.abort_incomplete_uploads(f"{tenant}-beside/", before=now) == 1


@pytest.mark.parametrize(
    "filename",
    ["plain.pdf", 'a"b.pdf', "a\r\nSet-Cookie: x=1", "Übergröße 日本.pdf", "a;b,c%20.pdf", "..", "\udc80.pdf"],
)
async def test_presigned_link_downloads_with_documents_name(
    s3_store: S3ObjectStore, s3_server: S3Server, tenant: str, a_file: AFile, filename: str
) -> None:
    await s3_store.put(f"{tenant}/d/1", a_file(b"content"))
    link = await s3_store.presign(f"{tenant}/d/1", filename=filename, media_type="application/pdf", inline=False)
    assert link is not None
    query = parse_qs(urlsplit(link).query)
    assert query["X-Amz-Expires"] == ["300"]
    assert query["X-Amz-Algorithm"] == ["AWS4-HMAC-SHA256"]
    assert s3_server.secret_access_key not in link
    reply = httpx2.get(link)
    assert reply.content == b"content"
    assert reply.headers["content-type"] == "application/pdf"
    assert reply.headers["content-disposition"].startswith('attachment; filename="')
    assert "set-cookie" not in reply.headers


async def test_presigned_link_uses_public_endpoint(
    open_s3: S3Opener, s3_server: S3Server, awkward: S3Proxy, tenant: str, a_file: AFile
) -> None:
    async def link(store: S3ObjectStore) -> str | None:
        made = await store.presign(f"{tenant}/d/1", filename="a", media_type="text/plain", inline=False)
        await store.close()
        return made

    assert await link(open_s3()) is None
    to_amazon = await link(open_s3(endpoint_url=None))
    assert to_amazon is not None
    assert to_amazon.startswith(f"https://{s3_server.bucket}.s3.amazonaws.com/{tenant}/d/1?")
    store = open_s3(public_endpoint_url=awkward.url)
    await store.put(f"{tenant}/d/1", a_file(b"content"))
    assert awkward.request_lines == []
    public = await link(store)
    assert public is not None
    assert public.startswith(f"{awkward.url}/{s3_server.bucket}/{tenant}/d/1?")
    assert httpx2.get(public).content == b"content"
    assert len(awkward.request_lines) == 1


async def test_presigned_link_is_created_without_server(s3_store: S3ObjectStore, tenant: str) -> None:
    link = await s3_store.presign(f"{tenant}/d/none", filename="a", media_type="text/html\r\nX: y", inline=True)
    assert link is not None
    query = parse_qs(urlsplit(link).query)
    assert query["response-content-type"] == ["application/octet-stream"]
    assert query["response-content-disposition"][0].startswith("inline; ")
    with pytest.raises(ObjectMissing):
        await s3_store.get_size(f"{tenant}/d/none")


@pytest.mark.skipif(os.environ.get("S3_SERVER") != "swift", reason="moto takes any secret and any link")
async def test_presigned_link_wrong_changed_or_expired_is_refused(
    s3_store: S3ObjectStore, s3_server: S3Server, tenant: str, a_file: AFile, tmp_path: Path
) -> None:
    key = f"{tenant}/d/1"
    await s3_store.put(key, a_file(b"content"))
    link = await s3_store.presign(key, filename="a.txt", media_type="text/plain", inline=False)
    assert link is not None
    assert httpx2.get(link).content == b"content"
    parts = urlsplit(link)
    dates = parse_qs(parts.query)["X-Amz-Date"]
    for changed in (
        link.replace(f"{tenant}/d/1", f"{tenant}/d/2"),
        link.replace("X-Amz-Expires=300", "X-Amz-Expires=301"),
        link.replace(dates[0], "20200101T000000Z"),
        f"{parts.scheme}://{parts.netloc}{parts.path}",
    ):
        assert httpx2.get(changed).status_code in (400, 403)
    store = S3ObjectStore(
        s3_server.bucket,
        endpoint_url=s3_server.endpoint_url,
        public_endpoint_url=None,
        access_key_id=s3_server.access_key_id,
        secret_access_key="another secret",
        region=None,
    )
    with pytest.raises(ObjectStoreUnavailable):
        await store.get(key, tmp_path / "target")
    await store.close()
