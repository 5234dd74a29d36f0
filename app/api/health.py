"""Liveness and readiness, for orchestrators."""

import asyncio

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from app.api.dependencies import CurrentResources
from app.errors import Unavailable

router = APIRouter(tags=["health"])


class Health(BaseModel):
    """``ok``, or what is not."""

    status: str
    checks: dict[str, str] = {}


@router.get("/healthz", response_model=Health)
async def healthz() -> Health:
    """The process answers."""
    return Health(status="ok")


@router.get("/readyz", response_model=Health, responses={503: {"model": Health}})
async def readyz(resources: CurrentResources) -> Health | JSONResponse:
    """Database and object store answer; a missing embedding model is told but does not take the service out."""
    checks: dict[str, str] = {}
    for name, check in (("database", resources.database.check), ("object_store", resources.objects.check)):
        try:
            async with asyncio.timeout(3):
                await check()
            checks[name] = "ok"
        except (Unavailable, TimeoutError):
            checks[name] = "unavailable"
    if all(state == "ok" for state in checks.values()):
        return Health(status="ok", checks=checks)
    return JSONResponse(Health(status="unavailable", checks=checks).model_dump(), 503, {"Retry-After": "2"})
