"""The application: lifespan, middleware, and the doors."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

from app import __version__
from app.api import health, problems, v1
from app.api.middleware import RequestMiddleware
from app.bootstrap import Resources

OpenResources = Callable[[], AbstractAsyncContextManager[Resources]]


def create_app(open_resources: OpenResources, *, cors_origins: tuple[str, ...] = ()) -> FastAPI:
    """The service; its resources are opened when it starts and closed when it stops."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with open_resources() as resources:
            app.state.resources = resources
            yield

    app = FastAPI(
        title="Carrel",
        version=__version__,
        summary="Retrieval-augmented generation as a service: one desk a tenant.",
        lifespan=lifespan,
        redoc_url=None,
        license_info={"name": "AGPL-3.0-or-later", "identifier": "AGPL-3.0-or-later"},
    )
    problems.install(app)
    if cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(cors_origins),
            allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
            allow_headers=["Authorization", "Content-Type", "Idempotency-Key", "X-Request-Id", "Last-Event-ID"],
            expose_headers=["X-Request-Id", "Location", "Retry-After", "Idempotent-Replayed", "Carrel-Deletion-Id"],
        )
    app.add_middleware(RequestMiddleware)
    app.include_router(health.router)
    app.include_router(v1.router)
    return app
