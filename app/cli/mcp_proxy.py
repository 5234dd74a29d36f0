"""``carrel mcp``: what ``/mcp`` offers, over standard input and output, for agents that start tools as commands."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import httpx2
import typer

from app import __version__
from app.cli.connection import Connection, find_service
from app.cli.runtime import Credentials

SECONDS = 90


def mcp(
    url: Annotated[
        str | None, typer.Option(help="The service's address; else CARREL_URL, else what serve left.")
    ] = None,
    key: Annotated[str | None, typer.Option(help="An API key; else CARREL_API_KEY, else what serve left.")] = None,
) -> None:
    """Serve the tools of a running service to a desktop agent, over standard input and output (MCP).

    Example: carrel mcp --url https://carrel.example --key carrel_…
    """
    service = find_service(url, key)
    connection = Connection.open(service)
    with connection.client:
        connection.get("/v1/me")  # a wrong address or key is told at once, and plainly
    asyncio.run(_serve(service))


async def _serve(service: Credentials) -> None:
    # Here, for the SDK takes most of a second, which other commands can do without.
    from mcp.server.stdio import stdio_server

    async with _relay(service) as server, stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


@asynccontextmanager
async def _relay(service: Credentials) -> AsyncIterator[Any]:
    """A server that asks the service for each of its answers."""
    from mcp.client import Client
    from mcp.client.streamable_http import streamable_http_client
    from mcp.server.lowlevel.server import Server

    headers = {"Authorization": f"Bearer {service.api_key}"}
    async with httpx2.AsyncClient(headers=headers, timeout=SECONDS) as http:
        transport = streamable_http_client(f"{service.url.rstrip('/')}/mcp", http_client=http)
        async with Client(transport, cache=None) as upstream:

            async def list_tools(_ctx: Any, params: Any) -> Any:
                return await upstream.list_tools(cursor=_cursor(params))

            async def call_tool(_ctx: Any, params: Any) -> Any:
                return await upstream.call_tool(params.name, params.arguments)

            async def list_resources(_ctx: Any, params: Any) -> Any:
                return await upstream.list_resources(cursor=_cursor(params))

            async def list_templates(_ctx: Any, params: Any) -> Any:
                return await upstream.list_resource_templates(cursor=_cursor(params))

            async def read_resource(_ctx: Any, params: Any) -> Any:
                return await upstream.read_resource(params.uri)

            server: Server[Any] = Server(
                "carrel",
                version=__version__,
                title="Carrel",
                instructions=upstream.instructions,
                on_list_tools=list_tools,
                on_call_tool=call_tool,
                on_list_resources=list_resources,
                on_list_resource_templates=list_templates,
                on_read_resource=read_resource,
            )
            yield server


def _cursor(params: Any) -> str | None:
    return None if params is None else params.cursor
