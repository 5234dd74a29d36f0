"""The contract of every object store."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from app.object_store import InvalidObjectKey, ObjectMissing, ObjectStore, ObjectStoreUnavailable

AFile = Callable[[bytes], Path]
BAD_KEYS = ["", "/", "/a", "a/", "a//b", "a/../b", "..", "a/.", "A/b", "a/b c", "a/b\n", "a\x00", "a/~b", "a\\b", "é"]


async def streamed(store: ObjectStore, key: str, start: int, length: int) -> list[bytes]:
    return [piece async for piece in store.stream(key, start=start, length=length)]


@pytest.mark.parametrize("length", [0, 1, 9_000, 16 * 1024 * 1024, 20 * 1024 * 1024 + 7])
async def test_put_and_get_return_same_bytes(
    store: ObjectStore, tenant: str, a_file: AFile, tmp_path: Path, length: int
) -> None:
    content = random.Random(length).randbytes(length)
    await store.put(f"{tenant}/doc/1", a_file(content))
    await store.get(f"{tenant}/doc/1", tmp_path / "target")
    assert (tmp_path / "target").read_bytes() == content
    assert await store.get_size(f"{tenant}/doc/1") == length


async def test_put_second_object_replaces_first(store: ObjectStore, tenant: str, a_file: AFile, tmp_path: Path) -> None:
    source = a_file(b"first, and longer")
    await store.put(f"{tenant}/doc/1", source)
    assert source.read_bytes() == b"first, and longer"
    await store.put(f"{tenant}/doc/1", a_file(b"second"))
    (tmp_path / "target").write_bytes(b"what was in the way before")
    await store.get(f"{tenant}/doc/1", tmp_path / "target")
    assert (tmp_path / "target").read_bytes() == b"second"


async def test_concurrent_puts_leave_one_complete_object(
    store: ObjectStore, tenant: str, a_file: AFile, tmp_path: Path
) -> None:
    contents = [bytes([n]) * 300_000 for n in range(8)]
    await asyncio.gather(*(store.put(f"{tenant}/doc/1", a_file(content)) for content in contents))
    await store.get(f"{tenant}/doc/1", tmp_path / "target")
    assert (tmp_path / "target").read_bytes() in contents


async def test_missing_object_raises_object_missing(
    store: ObjectStore, tenant: str, a_file: AFile, tmp_path: Path
) -> None:
    await store.put(f"{tenant}/doc/1", a_file(b"x"))
    for key in (f"{tenant}/doc/2", f"{tenant}/doc", f"{tenant}/doc/1/below", "nobody/at/all"):
        with pytest.raises(ObjectMissing):
            await store.get(key, tmp_path / "target")
        assert not (tmp_path / "target").exists()
        with pytest.raises(ObjectMissing):
            await store.get_size(key)
        for length in (0, 1):
            with pytest.raises(ObjectMissing):
                await streamed(store, key, 0, length)


async def test_put_missing_source_raises_file_not_found(store: ObjectStore, tenant: str, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await store.put(f"{tenant}/doc/1", tmp_path / "nothing")


async def test_get_unwritable_target_raises_file_not_found(
    store: ObjectStore, tenant: str, a_file: AFile, tmp_path: Path
) -> None:
    await store.put(f"{tenant}/doc/1", a_file(b"x"))
    with pytest.raises(FileNotFoundError):
        await store.get(f"{tenant}/doc/1", tmp_path / "no directory" / "target")


@pytest.mark.parametrize(
    ("start", "length"), [(0, 700_000), (0, 1), (699_999, 1), (100, 0), (123_456, 262_144), (1, 600_000)]
)
async def test_stream_range_yields_small_pieces(
    store: ObjectStore, tenant: str, a_file: AFile, start: int, length: int
) -> None:
    content = random.Random(5).randbytes(700_000)
    await store.put(f"{tenant}/doc/1", a_file(content))
    pieces = await streamed(store, f"{tenant}/doc/1", start, length)
    assert b"".join(pieces) == content[start : start + length]
    assert all(0 < len(piece) <= 256 * 1024 for piece in pieces)


@pytest.mark.parametrize(("start", "length"), [(0, 11), (9, 2), (10, 1), (500, 5)])
async def test_stream_range_beyond_end_raises(
    store: ObjectStore, tenant: str, a_file: AFile, start: int, length: int
) -> None:
    await store.put(f"{tenant}/doc/1", a_file(b"0123456789"))
    with pytest.raises(ObjectStoreUnavailable):
        await streamed(store, f"{tenant}/doc/1", start, length)


async def test_stream_can_be_closed_early(store: ObjectStore, tenant: str, a_file: AFile) -> None:
    await store.put(f"{tenant}/doc/1", a_file(bytes(1_000_000)))
    for _ in range(40):  # more than there are threads and connections
        pieces = store.stream(f"{tenant}/doc/1", start=0, length=1_000_000)
        assert len(await anext(pieces)) > 0
        await pieces.aclose()  # type: ignore[attr-defined]  # the protocol promises an iterator, the stores are generators
    assert await store.get_size(f"{tenant}/doc/1") == 1_000_000


async def test_delete_twice_succeeds(store: ObjectStore, tenant: str, a_file: AFile) -> None:
    await store.put(f"{tenant}/doc/1", a_file(b"x"))
    await store.put(f"{tenant}/doc/2", a_file(b"y"))
    await store.delete(f"{tenant}/doc/1")
    await store.delete(f"{tenant}/doc/1")
    await store.delete(f"{tenant}/never/was")
    with pytest.raises(ObjectMissing):
        await store.get_size(f"{tenant}/doc/1")
    assert await store.get_size(f"{tenant}/doc/2") == 1


async def test_delete_prefix_deletes_only_objects_below(store: ObjectStore, tenant: str, a_file: AFile) -> None:
    below = [f"{tenant}/a/1", f"{tenant}/a/2", f"{tenant}/b/1", f"{tenant}/b.c/deep/er/1"]
    beside = [f"{tenant}x/a/1", f"x{tenant}/a/1"]
    for key in below + beside:
        await store.put(key, a_file(b"x"))
    assert await store.delete_prefix(f"{tenant}/a/") == 2
    assert await store.delete_prefix(f"{tenant}/") == 2
    assert await store.delete_prefix(f"{tenant}/") == 0
    for key in below:
        with pytest.raises(ObjectMissing):
            await store.get_size(key)
    for key in beside:
        assert await store.get_size(key) == 1


@pytest.mark.parametrize("key", BAD_KEYS)
async def test_key_outside_of_root_is_refused(store: ObjectStore, a_file: AFile, tmp_path: Path, key: str) -> None:
    calls: list[Awaitable[object]] = [
        store.put(key, a_file(b"x")),
        store.get(key, tmp_path / "target"),
        store.get_size(key),
        streamed(store, key, 0, 0),
        streamed(store, key, 0, 1),
        store.presign(key, filename="a", media_type="text/plain", inline=False),
        store.delete(key),
        store.delete_prefix(f"{key}/"),
    ]
    for call in calls:
        with pytest.raises(InvalidObjectKey):
            await call


@pytest.mark.parametrize("prefix", ["", "a", "a/b", "/", "../", "a/../"])
async def test_prefix_without_slash_or_empty_is_refused(store: ObjectStore, prefix: str) -> None:
    with pytest.raises(InvalidObjectKey):
        await store.delete_prefix(prefix)
    with pytest.raises(InvalidObjectKey):
        await store.abort_incomplete_uploads(prefix, before=datetime.now(UTC))
    with pytest.raises(InvalidObjectKey):
        [found async for found in store.list_objects(prefix)]


async def test_list_objects_yields_every_object_with_time(store: ObjectStore, tenant: str, a_file: AFile) -> None:
    before = datetime.now(UTC)
    keys = {f"{tenant}/a/1", f"{tenant}/a/2", f"{tenant}/b.c/deep/er/1", f"{tenant}-beside/a/1"}
    for key in keys:
        await store.put(key, a_file(b"x"))
    await store.delete(f"{tenant}/a/2")
    listed = {found.key: found.modified async for found in store.list_objects() if found.key.startswith(tenant)}
    assert listed.keys() == keys - {f"{tenant}/a/2"}
    assert {found.key async for found in store.list_objects(f"{tenant}/a/")} == {f"{tenant}/a/1"}
    assert [found.key async for found in store.list_objects(f"{tenant}/nothing/")] == []
    for modified in listed.values():
        assert abs((modified - before).total_seconds()) < 60  # the server has another clock


async def test_check_of_working_store_succeeds(store: ObjectStore) -> None:
    await store.check()
