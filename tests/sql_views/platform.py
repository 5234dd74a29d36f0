"""An agent platform that reads a SQL view with a plain driver, by the connection details of the API."""

import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import asyncpg

from harness.running_service import Tenant

# Errors after a SQL view is deleted, on an open session or on a new one.
ENDED = (asyncpg.PostgresError, asyncpg.InterfaceError, OSError)


@dataclass(frozen=True)
class Published:
    """The reply that created a SQL view."""

    connection: dict[str, Any]
    password: str

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[asyncpg.Connection]:
        """Open a connection with the SQL view's role."""
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
        """Return the texts of the view's rows with this metadata."""
        async with self.connected() as reader:
            return await texts(reader, self.connection, **contains)

    async def shows_nothing(self) -> bool:
        """Return whether nothing can be read: the role is deleted or fails, or the session was ended."""
        try:
            return not await self.texts()
        except ENDED:
            return True


async def texts(reader: asyncpg.Connection, details: dict[str, Any], **contains: Any) -> set[str]:
    """Return all texts, on an open connection."""
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
    """Wait for a condition, at most half a minute."""
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)
