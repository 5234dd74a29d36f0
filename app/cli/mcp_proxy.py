"""``carrel mcp``: the MCP endpoint ``/mcp`` of a service over standard input and output, for desktop agents."""

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx2

from app.cli.client.options import Key, Url
from app.cli.endpoint import connect, resolve_endpoint
from app.cli.runtime_state import Credentials
from carrel import __version__

if TYPE_CHECKING:
    from mcp.client import Client

TIMEOUT_SECONDS = 90


def mcp(
    url: Url = None,
    key: Key = None,
) -> None:
    """Connect a desktop agent to a running service over standard input and output (MCP).

    Enter this command in the MCP settings of the agent, which starts it. The agent gets the same tools as from the
    endpoint /mcp of the service.

    Example: carrel mcp --url https://carrel.example --key carrel_…
    """
    service = resolve_endpoint(url, key)
    with connect(url, key) as client:
        client.me()  # reports a wrong URL or key before the agent sends its first request
    asyncio.run(_serve(service))


async def _serve(service: Credentials) -> None:
    # The import of the SDK takes most of a second, so other commands do not import it.
    from mcp.client import Client
    from mcp.client.streamable_http import streamable_http_client
    from mcp.server.stdio import stdio_server

    headers = {"Authorization": f"Bearer {service.api_key}"}
    async with httpx2.AsyncClient(headers=headers, timeout=TIMEOUT_SECONDS) as http:
        transport = streamable_http_client(f"{service.url.rstrip('/')}/mcp", http_client=http)
        async with Client(transport, cache=None) as upstream, stdio_server() as (incoming, outgoing):
            server = _McpRelay(upstream).create_server()
            await server.run(incoming, outgoing, server.create_initialization_options())


@dataclass(frozen=True, slots=True)
class _McpRelay:
    """MCP server that forwards each request to the service."""

    upstream: "Client"

    def create_server(self) -> Any:
        from mcp.server.lowlevel.server import Server

        return Server(
            "carrel",
            version=__version__,
            title="Carrel",
            instructions=self.upstream.instructions,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
        )

    async def _list_tools(self, _ctx: Any, params: Any) -> Any:
        return await self.upstream.list_tools(cursor=_get_cursor(params))

    async def _call_tool(self, _ctx: Any, params: Any) -> Any:
        return await self.upstream.call_tool(params.name, params.arguments)

    async def _list_resources(self, _ctx: Any, params: Any) -> Any:
        return await self.upstream.list_resources(cursor=_get_cursor(params))

    async def _list_templates(self, _ctx: Any, params: Any) -> Any:
        return await self.upstream.list_resource_templates(cursor=_get_cursor(params))

    async def _read_resource(self, _ctx: Any, params: Any) -> Any:
        return await self.upstream.read_resource(params.uri)


def _get_cursor(params: Any) -> str | None:
    return None if params is None else params.cursor
