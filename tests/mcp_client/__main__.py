"""Program that reads a command in each line as JSON, and writes a line with its result or its error."""

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from typing import Any

import httpx2
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError


async def main() -> None:
    async with AsyncExitStack() as stack:
        clients: dict[str, Client] = {}
        while line := await asyncio.to_thread(sys.stdin.readline):
            asked = json.loads(line)
            try:
                client = await connected(stack, clients, asked["to"])
                result = await getattr(client, asked["do"])(*asked["arguments"], **asked["named"])
                reply = {"result": result.model_dump(mode="json", by_alias=True, exclude_none=True)}
            except MCPError as exc:
                reply = {"error": {"code": exc.code, "message": exc.message, "data": exc.data}}
            sys.stdout.write(json.dumps(reply) + "\n")
            sys.stdout.flush()


async def connected(stack: AsyncExitStack, clients: dict[str, Client], place: dict[str, Any]) -> Client:
    """Return the client for an address; it is opened once."""
    name = json.dumps(place)
    if name not in clients:
        server: Any
        if "command" in place:
            server = StdioServerParameters(**place)
        else:
            http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {place['key']}"}, timeout=60)
            server = streamable_http_client(place["url"], http_client=await stack.enter_async_context(http))
        client = Client(server, mode=place.pop("mode", "auto"))
        clients[name] = await stack.enter_async_context(client)
    return clients[name]


asyncio.run(main())
