"""The application: lifespan, middleware, and the doors."""

import asyncio
import base64
import hashlib
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse, JSONResponse
from starlette.middleware.cors import CORSMiddleware

from app import __version__
from app.api import dify, health, mcp, openai, problems, v1
from app.api.idempotency import REPLAYED
from app.api.middleware import GuardMiddleware, RequestMiddleware
from app.bootstrap import Resources

READ_BY_US = [
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
READ_BY_PAGES = [
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
    REPLAYED,
]
# Where FastAPI's page has its scripts from.
SWAGGER = "https://cdn.jsdelivr.net/npm/swagger-ui-dist@5/"
OpenResources = Callable[[], AbstractAsyncContextManager[Resources]]


def create_app(open_resources: OpenResources, *, cors_origins: tuple[str, ...] = ()) -> FastAPI:
    """The service; its resources are opened when it starts and closed when it stops."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with open_resources() as resources, mcp.open_door(cors_origins) as door:
            app.state.resources, app.state.mcp = resources, door
            yield

    app = FastAPI(
        title="Carrel",
        version=__version__,
        summary="Retrieval-augmented generation as a service: one desk a tenant.",
        lifespan=lifespan,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        # A redirect's address would be made from the Host header, and of http:// behind a proxy that speaks TLS.
        redirect_slashes=False,
        license_info={"name": "AGPL-3.0-or-later", "identifier": "AGPL-3.0-or-later"},
    )
    app.state.envelopes = {openai.PREFIX: openai.envelope}
    problems.install(app)
    app.add_middleware(GuardMiddleware)
    if cors_origins:
        # Credentials stay off: a key is in a header that the page itself sets, never in a cookie that a browser adds.
        app.add_middleware(
            CORSMiddleware,
            allow_origins=cors_origins,
            allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
            allow_headers=READ_BY_US,
            expose_headers=READ_BY_PAGES,
        )
    app.add_middleware(RequestMiddleware)
    app.add_route("/openapi.json", description, include_in_schema=False)
    app.add_api_route("/docs", docs_page, include_in_schema=False)
    v1.install(app)
    app.include_router(health.router)
    app.include_router(mcp.router)
    app.include_router(dify.router)
    app.include_router(openai.router)
    return app


async def description(request: Request) -> JSONResponse:
    """The OpenAPI document. Made in a thread: the first time it takes a second, for which nobody else is to wait."""
    app, root = request.app, request.scope.get("root_path", "").rstrip("/")
    servers = {"servers": [{"url": root}]} if root else {}
    return await asyncio.to_thread(lambda: JSONResponse({**app.openapi(), **servers}))


async def docs_page(request: Request) -> HTMLResponse:
    """The interactive description: the one page that runs scripts, which may speak to this server alone."""
    root = request.scope.get("root_path", "").rstrip("/")
    page = get_swagger_ui_html(openapi_url=f"{root}/openapi.json", title="Carrel", swagger_favicon_url="data:,")
    script = re.search(rb"<script>(.*?)</script>", bytes(page.body), re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script[1] if script else b"").digest()).decode()
    page.headers["Content-Security-Policy"] = (
        f"default-src 'none'; script-src {SWAGGER} 'sha256-{digest}'; style-src {SWAGGER} 'unsafe-inline'; "
        "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return page
