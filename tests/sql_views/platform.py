"""An agent platform that reads a SQL view with a plain driver, by the connection details of the API."""

import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import asyncpg

from harness.running_service import Tenant

# What a reader may meet where a SQL view was deleted, on a session that was open or on a new one.
ENDED = (asyncpg.PostgresError, asyncpg.InterfaceError, OSError)


@dataclass(frozen=True)
class Published:
    """The reply that created a SQL view."""

    connection: dict[str, Any]
    password: str

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[asyncpg.Connection]:
        """A connection with the SQL view's role."""
        details = self.connection
        connection = await asyncpg.connect(
            host=details["hostname"],
            port=details["port"],
            user=details["user"],
            password=self.password,
            database=details["dbname"],
            ssl=details["sslmode"],
        )
        try:
            yield connection
        finally:
            await connection.close()

    async def texts(self, **contains: Any) -> set[str]:
        """All that the view holds of rows with this metadata."""
        async with self.connected() as reader:
            return await texts(reader, self.connection, **contains)

    async def shows_nothing(self) -> bool:
        """Whether nothing is left to be read: by a role that is gone or fails, by a session that was ended."""
        try:
            return not await self.texts()
        except ENDED:
            return True


async def texts(reader: asyncpg.Connection, details: dict[str, Any], **contains: Any) -> set[str]:
    """All texts, on a connection that is open."""
    sql = f"select metadata ->> $1 from {details['collection']} where metadata @> $2::jsonb"
    return {row[0] for row in await reader.fetch(sql, details["content_key"], json.dumps(contains))}


def allow(tenant: Tenant, *, sql_views: bool = True) -> Tenant:
    """Let the operator allow the tenant to create SQL views, or forbid it."""
    body = {"sql_views": sql_views}
    tenant.service.operator.patch(f"/v1/tenants/{tenant.id}", json=body).raise_for_status()
    return tenant


def publish(tenant: Tenant, kb: str = "default", **wishes: str) -> Published:
    """Create a SQL view and wait until it is ready."""
    path = f"/v1/knowledge-bases/{kb}/sql-view"
    reply = tenant.admin.post(path, json=wishes)
    assert reply.status_code == 202, reply.text
    eventually(lambda: tenant.admin.get(path).json()["state"] == "ready")
    return Published(reply.json()["connection"], reply.json()["password"])


def eventually(holds: Callable[[], bool]) -> None:
    """Wait for it, half a minute at most."""
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)
