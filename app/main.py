"""The ASGI application: lifespan, middleware and APIs."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from starlette.middleware.cors import CORSMiddleware

from app.api import api_docs, dify, health, mcp, openai, v1
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
ResourcesFactory = Callable[[], AbstractAsyncContextManager[Resources]]


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

    app = FastAPI(
        title="Carrel",
        generate_unique_id_function=get_operation_id,
        version=__version__,
        summary="Retrieval-augmented generation as a service for many tenants.",
        lifespan=lifespan,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        # The address of a redirect would come from the Host header, and with http:// behind a proxy that ends TLS.
        redirect_slashes=False,
        license_info={"name": "AGPL-3.0-or-later", "identifier": "AGPL-3.0-or-later"},
    )
    app.state.envelopes = {openai.PREFIX: openai.create_error_response}
    problems.register_exception_handlers(app)
    app.add_middleware(BodyLimitMiddleware)
    if cors_origins:
        # Credentials are not allowed: the page itself sets the header with the API key, and no cookie is used.
        app.add_middleware(
            CORSMiddleware,
            allow_origins=cors_origins,
            allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
            allow_headers=CORS_ALLOWED_HEADERS,
            expose_headers=CORS_EXPOSED_HEADERS,
        )
    app.add_middleware(RequestMiddleware)
    app.add_route("/openapi.json", get_openapi_document, include_in_schema=False)
    api_docs.add_docs_page(app)
    v1.include_routers(app)
    app.include_router(health.router)
    app.include_router(mcp.router)
    app.include_router(dify.router)
    app.include_router(openai.router)
    return app


def get_operation_id(route: APIRoute) -> str:
    """Return the operation id of a route: the name of its handler, which is unique in the API."""
    return route.name


async def get_openapi_document(request: Request) -> JSONResponse:
    """Return the OpenAPI document. A thread builds it, because the first time takes a second."""
    app, root = request.app, request.scope.get("root_path", "").rstrip("/")
    servers = {"servers": [{"url": root}]} if root else {}
    return await asyncio.to_thread(lambda: JSONResponse({**app.openapi(), **servers}))
