"""The operator's routes: tenants; and ``/v1/me`` for everybody."""

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Response
from pydantic import BaseModel, StringConstraints

from app.api.dependencies import (
    CurrentOperator,
    CurrentPage,
    CurrentReader,
    CurrentResources,
    GuardedRoute,
    next_cursor,
)
from app.api.v1.schemas import STORABLE, Input, Listing, Time
from app.db.models.control_plane import Tenant
from app.db.models.control_rows import ListedTenant
from app.ids import decode_id, encode_id
from app.tenants.types import TenantNotFound

router = APIRouter(route_class=GuardedRoute)
Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200), STORABLE]


class TenantIn(Input):
    """A new tenant, or another name for one."""

    name: Name


class FirstKey(BaseModel):
    """The tenant's first key, shown once."""

    id: str
    role: str
    key: str


class TenantOut(BaseModel):
    """A tenant."""

    id: str
    name: str
    created_at: Time


class NewTenantOut(TenantOut):
    """A tenant that was just made."""

    api_key: FirstKey


class KeyFacts(BaseModel):
    """The key of this request."""

    id: str | None
    name: str
    role: str
    knowledge_bases: list[str] | None
    user_id: str | None


class MeOut(BaseModel):
    """Who is calling."""

    tenant: dict[str, str]
    key: KeyFacts
    limits: dict[str, Any]


def tenant_out(tenant: Tenant | ListedTenant) -> dict[str, Any]:
    """The wire form of a tenant."""
    return {"id": encode_id("ten", tenant.id), "name": tenant.name, "created_at": tenant.created_at}


def _tenant_id(text: str) -> UUID:
    found = decode_id("ten", text)
    if found is None:
        raise TenantNotFound
    return found


@router.post("/tenants", status_code=201, response_model=NewTenantOut, tags=["tenants"])
async def create_tenant(body: TenantIn, resources: CurrentResources, _: CurrentOperator) -> dict[str, Any]:
    """Make a tenant with its first admin key and the knowledge base ``default``."""
    tenant, issued = await resources.tenants.create(body.name)
    key = FirstKey(id=encode_id("key", issued.row.id), role=issued.row.role, key=issued.secret)
    return {**tenant_out(tenant), "api_key": key}


@router.get("/tenants", response_model=Listing[TenantOut], tags=["tenants"])
async def list_tenants(page: CurrentPage, resources: CurrentResources, _: CurrentOperator) -> dict[str, Any]:
    """Tenants, newest first."""
    found = await resources.tenants.page(after=page.after(), limit=page.limit + 1)
    more = found[page.limit :]
    items = found[: page.limit]
    cursor = next_cursor(items[-1].created_at, items[-1].id) if more else None
    return {"items": [tenant_out(tenant) for tenant in items if tenant.deleted_at is None], "next_cursor": cursor}


@router.get("/tenants/{tenant}", response_model=TenantOut, tags=["tenants"])
async def get_tenant(tenant: str, resources: CurrentResources, _: CurrentOperator) -> dict[str, Any]:
    """One tenant."""
    return tenant_out(await resources.tenants.get(_tenant_id(tenant)))


@router.patch("/tenants/{tenant}", response_model=TenantOut, tags=["tenants"])
async def rename_tenant(tenant: str, body: TenantIn, resources: CurrentResources, _: CurrentOperator) -> dict[str, Any]:
    """Give a tenant another name."""
    return tenant_out(await resources.tenants.rename(_tenant_id(tenant), body.name))


@router.delete("/tenants/{tenant}", status_code=202, tags=["tenants"])
async def delete_tenant(tenant: str, resources: CurrentResources, _: CurrentOperator) -> Response:
    """Shut its keys out at once; rows, vectors and objects are removed by a job."""
    await resources.tenants.delete(_tenant_id(tenant))
    return Response(status_code=202)


@router.get("/me", response_model=MeOut, tags=["me"])
async def me(tenant: CurrentReader, resources: CurrentResources) -> dict[str, Any]:
    """The tenant and the key of this request, and the limits that hold for it."""
    principal = tenant.principal
    allowed = principal.knowledge_base_ids
    return {
        "tenant": {"id": encode_id("ten", principal.tenant_id), "name": principal.tenant_name},
        "key": KeyFacts(
            id=encode_id("key", principal.key_id) if principal.key_id else None,
            name=principal.key_name,
            role=principal.role.value,
            knowledge_bases=None if allowed is None else sorted(encode_id("kb", kb) for kb in allowed),
            user_id=principal.user_id,
        ),
        "limits": {"upload_bytes": resources.settings.server.max_upload_bytes},
    }
