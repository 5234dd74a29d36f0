"""Objects as files: modes, unfinished files, and directories that are created and removed."""

import asyncio
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from app.object_store import ObjectMissing, ObjectStoreUnavailable
from app.object_store.filesystem import FileObjectStore

AFile = Callable[[bytes], Path]


@pytest.fixture
async def root(tmp_path: Path) -> Path:
    return tmp_path / "objects"


@pytest.fixture
def store(root: Path) -> FileObjectStore:
    return FileObjectStore(root)


def everything(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*")}


async def test_file_modes_allow_only_owner(store: FileObjectStore, root: Path, a_file: AFile) -> None:
    before = os.umask(0)
    try:
        await store.put("t/d/1", a_file(b"x"))
    finally:
        os.umask(before)
    modes = {name: stat.S_IMODE((root / name).stat().st_mode) for name in ("", "t", "t/d", "t/d/1")}
    assert modes == {"": 0o700, "t": 0o700, "t/d": 0o700, "t/d/1": 0o600}
    assert everything(root) == {"t", "t/d", "t/d/1"}


async def test_existing_directory_mode_is_unchanged(store: FileObjectStore, root: Path, a_file: AFile) -> None:
    root.mkdir()
    root.chmod(0o755)
    await store.put("t/d/1", a_file(b"x"))
    assert stat.S_IMODE(root.stat().st_mode) == 0o755


async def test_cancelled_put_leaves_nothing(store: FileObjectStore, root: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    task = asyncio.create_task(store.put("t/d/1", pipe))
    with await asyncio.to_thread(pipe.open, "wb") as writer:
        await asyncio.to_thread(writer.write, bytes(3 * 1024 * 1024))
        assert any(name.startswith("t/d/~") for name in everything(root))
        task.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert everything(root) == {"t", "t/d"}


async def test_a_cancelled_get_leaves_no_target(store: FileObjectStore, a_file: AFile, tmp_path: Path) -> None:
    await store.put("t/d/1", a_file(bytes(5 * 1024 * 1024)))
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    task = asyncio.create_task(store.get("t/d/1", pipe))
    with await asyncio.to_thread(pipe.open, "rb") as reader:
        await asyncio.to_thread(reader.read, 100)
        task.cancel()
        await asyncio.sleep(0)
        await asyncio.to_thread(reader.read)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not pipe.exists()


async def test_failed_put_leaves_existing_objects(store: FileObjectStore, root: Path, a_file: AFile) -> None:
    await store.put("t/d/1", a_file(b"x"))
    with pytest.raises(ObjectStoreUnavailable):
        await store.put("t/d", a_file(b"in the place of a directory"))
    with pytest.raises(ObjectStoreUnavailable):
        await store.put("t/d/1/2", a_file(b"below a file"))
    assert everything(root) == {"t", "t/d", "t/d/1"}


async def test_delete_removes_empty_directories(store: FileObjectStore, root: Path, a_file: AFile) -> None:
    for key in ("t/d/1", "t/d/2", "t/e/1", "u/d/1"):
        await store.put(key, a_file(b"x"))
    await store.delete("t/d/1")
    assert "t/d/2" in everything(root)
    await store.delete("t/d/2")
    assert everything(root) == {"t", "t/e", "t/e/1", "u", "u/d", "u/d/1"}
    await store.delete_prefix("u/d/")
    await store.delete_prefix("t/")
    assert everything(root) == set()
    assert root.is_dir()


REMOVER = """
import os, sys, time
while True:
    time.sleep(0.0001)
    for name in ("t/d", "t"):
        try:
            os.rmdir(os.path.join(sys.argv[1], name))
        except OSError:
            pass
"""


async def test_put_succeeds_during_removal_of_empty_directories(
    store: FileObjectStore, root: Path, a_file: AFile
) -> None:
    source = a_file(b"x")

    async def again_and_again(key: str) -> None:
        for _ in range(60):
            await store.put(key, source)
            assert await store.get_size(key) == 1
            await store.delete(key)

    # A separate process, because the interpreter's lock would serialize two threads.
    with subprocess.Popen([sys.executable, "-S", "-c", REMOVER, str(root)]) as remover:
        try:
            await asyncio.gather(*(again_and_again(f"t/d/{n}") for n in range(3)))
        finally:
            remover.kill()
    with pytest.raises(ObjectMissing):
        await store.get_size("t/d/0")


async def test_delete_prefix_removes_files_of_killed_put(store: FileObjectStore, root: Path, a_file: AFile) -> None:
    await store.put("t/d/1", a_file(b"x"))
    (root / "t/d/~half").write_bytes(b"half of somebody's document")
    assert await store.delete_prefix("t/") == 1
    assert everything(root) == set()


async def test_files_of_killed_put_are_no_objects_and_are_removed_later(
    store: FileObjectStore, root: Path, a_file: AFile
) -> None:
    for key in ("t/d/1", "u/d/1"):
        await store.put(key, a_file(b"x"))
    for folder in ("t/e", "v/d"):
        (root / folder).mkdir(parents=True)
    for name in ("t/d/~old", "t/e/~old", "t/d/~young", "v/d/~old"):
        (root / name).write_bytes(b"half of somebody's document")
        if name.endswith("old"):
            os.utime(root / name, (0, 0))
    assert {found.key async for found in store.list_objects()} == {"t/d/1", "u/d/1"}
    assert await store.abort_incomplete_uploads("t/", before=datetime.now(UTC) - timedelta(minutes=1)) == 2
    assert everything(root) == {"t", "t/d", "t/d/1", "t/d/~young", "u", "u/d", "u/d/1", "v", "v/d", "v/d/~old"}


async def test_list_objects_of_many_files_is_complete(store: FileObjectStore, root: Path) -> None:
    for tenant in range(5):
        (root / f"t{tenant}").mkdir(parents=True)
        for number in range(500):
            (root / f"t{tenant}" / str(number)).touch()
    assert len([found async for found in store.list_objects()]) == 2500


async def test_missing_root_has_no_objects(store: FileObjectStore) -> None:
    assert [found async for found in store.list_objects()] == []
    assert await store.abort_incomplete_uploads("t/", before=datetime.now(UTC)) == 0


async def test_root_that_is_a_file_is_unavailable(tmp_path: Path, a_file: AFile) -> None:
    store = FileObjectStore(a_file(b"a file"))
    with pytest.raises(ObjectStoreUnavailable):
        await store.check()
    with pytest.raises(ObjectStoreUnavailable):
        await store.put("t/d/1", a_file(b"x"))


async def test_check_creates_root_and_leaves_it_empty(store: FileObjectStore, root: Path) -> None:
    await store.check()
    assert stat.S_IMODE(root.stat().st_mode) == 0o700
    assert everything(root) == set()


async def test_presign_of_files_returns_none(store: FileObjectStore) -> None:
    assert await store.presign("t/d/1", filename="a.pdf", media_type="application/pdf", inline=True) is None
