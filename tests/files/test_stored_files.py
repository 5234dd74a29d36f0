"""Stored files: which ones the sweepers leave or delete, also during other requests."""

import os
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from app.bootstrap import TenantServices
from app.files.service import FileFields, FileNotFound
from app.worker.handlers import JobContext
from tests.ingestion.workshop import Workshop

BODY = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nThe heron fishes.\r\n--b--\r\n'
LONG_AGO = time.time() - 36_000


async def body() -> AsyncIterator[bytes]:
    yield BODY


async def keep(services: TenantServices, lifetime: timedelta | None = None) -> tuple[str, Path]:
    file = await services.files.store(body(), b"b", lambda _: FileFields("assistants", lifetime))
    return str(file.id), Path(file.key)


async def test_stored_file_is_no_orphan_until_it_expires(workshop: Workshop, data_dir: Path) -> None:
    services = await workshop.new_tenant()
    sweeper = JobContext(workshop.resources, workshop.pipeline).sweeper
    (kept, kept_key), (brief, brief_key) = await keep(services), await keep(services, timedelta(hours=1))
    for key in (kept_key, brief_key):
        os.utime(data_dir / "objects" / key, (LONG_AGO, LONG_AGO))
    assert (await sweeper.delete_orphans()).orphans == 0
    await workshop.owner.execute("update stored_file set expires_at = now() where id = $1", brief)
    await sweeper.delete_old_records()
    assert [str(row["id"]) for row in await workshop.owner.fetch("select id from stored_file")] == [kept]
    assert (await sweeper.delete_orphans()).orphans == 1
    assert (data_dir / "objects" / kept_key).exists()
    assert not (data_dir / "objects" / brief_key).exists()


async def test_stored_file_is_deleted_once(workshop: Workshop) -> None:
    services = await workshop.new_tenant()
    file = await services.files.store(body(), b"b", lambda _: FileFields("assistants"))
    await services.files.delete(file.id)
    with pytest.raises(FileNotFound):
        await services.files.delete(file.id)
    events = await workshop.owner.fetch(
        "select action from audit_event where tenant_id = $1 and action like 'file.%' order by id", file.tenant_id
    )
    assert [row["action"] for row in events] == ["file.create", "file.delete"]
