"""The ASGI application: lifespan, middleware and APIs."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from starlette.middleware.cors import CORSMiddleware

from app.api import api_docs, console, dify, health, mcp, openai, v1
from app.api.http import problems
from app.api.http.admission import AdmissionControl
from app.api.http.idempotency import REPLAYED_HEADER
from app.api.http.middleware import BodyLimitMiddleware, RequestMiddleware
from app.bootstrap import Resources
from app.cleanup.sweeper import run_temp_file_sweeper
from carrel import __version__

CORS_ALLOWED_HEADERS = [
    "Authorization",
    "Content-Type",
    "Idempotency-Key",
    "X-Request-Id",
    "Last-Event-ID",
    "Range",
    "If-Match",
    "If-None-Match",
    "If-Range",
    "Mcp-Protocol-Version",
    "Mcp-Method",
    "Mcp-Name",
]
CORS_EXPOSED_HEADERS = [
    "X-Request-Id",
    "Location",
    "Content-Disposition",
    "Content-Range",
    "ETag",
    "Retry-After",
    "RateLimit-Limit",
    "RateLimit-Remaining",
    "RateLimit-Reset",
    "Server-Timing",
    "Carrel-Deletion-Id",
    REPLAYED_HEADER,
]
API_DESCRIPTION = """
Carrel stores documents of many tenants and searches them: upload a file, search its chunks, get answers with citations.

- **Authentication.** Send `Authorization: Bearer <key>`. The key determines the tenant.
- **Errors** are `application/problem+json` (RFC 9457). The last part of `type` is a stable error code.
- **Lists** take `limit` and `cursor`. `next_cursor` is null on the last page. With `count=true`, `total` is the
  number of all items; it is left out with the warning `count_unavailable` if counting takes over two seconds.
- **Edits** are safe with `If-Match`: send the `ETag` of the resource with a PATCH. If another edit was faster, the
  response is 412 `precondition_failed`. `If-None-Match` on a GET saves the body of an unchanged resource (304).
- **Writes** take an `Idempotency-Key`, so that they can be sent again safely.
- **Ids** have a prefix that says what they name, for example `doc_01h455vb4pex5vsknk084sn02q`.
- **Times** are RFC 3339 in UTC. Sizes are bytes, offsets are code points, durations say their unit.
"""
ResourcesFactory = Callable[[], AbstractAsyncContextManager[Resources]]


class CarrelApplication(FastAPI):
    """Application whose OpenAPI document has examples and error codes."""

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document; it is built once."""
        if self.openapi_schema is None:
            schemas = {"OpenAiError": openai.ERROR_SCHEMA, **v1.build_body_schemas()}
            self.openapi_schema = api_docs.complete_document(super().openapi(), schemas=schemas)
        return self.openapi_schema


def create_app(open_resources: ResourcesFactory, *, cors_origins: tuple[str, ...] = ()) -> FastAPI:
    """Create the application. Its resources open when it starts, and close when it stops.

    Args:
        open_resources: Function that opens the resources.
        cors_origins: Origins whose web pages may call the API. By default there are none.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with (
            open_resources() as resources,
            mcp.mcp_lifespan(cors_origins) as mcp_transport,
            run_temp_file_sweeper(),
        ):
            app.state.resources, app.state.mcp = resources, mcp_transport
            app.state.admission = admission = AdmissionControl()
            async with admission.monitor_loop():
                yield

    app = CarrelApplication(
        title="Carrel",
        generate_unique_id_function=get_operation_id,
        version=__version__,
        summary="Retrieval-augmented generation as a service for many tenants.",
        description=API_DESCRIPTION,
        openapi_tags=api_docs.TAGS,
        lifespan=lifespan,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        # The address of a redirect would come from the Host header. Behind a proxy that ends TLS, it would begin with
        # http://.
        redirect_slashes=False,
        license_info={"name": "AGPL-3.0-or-later", "identifier": "AGPL-3.0-or-later"},
    )
    app.state.envelopes = {openai.PREFIX: openai.create_error_response}
    problems.register_exception_handlers(app)
    app.add_middleware(BodyLimitMiddleware)
    if cors_origins:
        # CORS credentials are off: a web page sets the header with the API key itself, and the service uses no cookies.
        app.add_middleware(
            CORSMiddleware,
            allow_origins=cors_origins,
            allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
            allow_headers=CORS_ALLOWED_HEADERS,
            expose_headers=CORS_EXPOSED_HEADERS,
        )
    app.add_middleware(RequestMiddleware)
    app.add_route("/openapi.json", get_openapi_document, include_in_schema=False)
    api_docs.add_docs_pages(app)
    v1.include_routers(app)
    app.include_router(health.router)
    app.include_router(mcp.router)
    app.include_router(dify.router)
    app.include_router(openai.router)
    console.add_console_routes(app)
    return app


def get_operation_id(route: APIRoute) -> str:
    """Return the operation id of a route: the name of its handler, which is unique in the API."""
    return route.name


async def get_openapi_document(request: Request) -> JSONResponse:
    """Return the OpenAPI document. The first call takes a second, so a thread builds the document."""
    app, root = request.app, request.scope.get("root_path", "").rstrip("/")
    servers = {"servers": [{"url": root}]} if root else {}
    return await asyncio.to_thread(lambda: JSONResponse({**app.openapi(), **servers}))
