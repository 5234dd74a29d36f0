"""The operator's routes: tenants; and ``/v1/me`` for everybody."""

from dataclasses import asdict
from typing import Annotated, Any, Self
from uuid import UUID

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field, StringConstraints, model_validator

from app.access import Quotas
from app.api.bodies import STORABLE
from app.api.dependencies import (
    CurrentOperator,
    CurrentPage,
    CurrentReader,
    CurrentResources,
    GuardedRoute,
    next_cursor,
)
from app.api.v1.deletion_header import gone, told_by_header
from app.api.v1.schemas import Input, Listing, Time
from app.audit.types import Actor
from app.db.models.control_plane import Tenant
from app.db.models.control_rows import ListedTenant
from app.ids import decode_id, encode_id
from app.settings import Limits
from app.tenants.types import TenantNotFound

router = APIRouter(route_class=GuardedRoute)
Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200), STORABLE]


_SQL_VIEWS = "Whether admins of the tenant may publish knowledge bases as SQL views, where the service allows it at all"


class QuotasIn(Limits):
    """What a tenant may use; null is without a limit. What is left out is as the service gives it, or stays."""


class QuotasOut(Limits):
    """What a tenant may use; null is without a limit."""


class TenantIn(Input):
    """A new tenant."""

    name: Name
    quotas: QuotasIn | None = None


class TenantChanges(Input):
    """What changes of a tenant; what is left out stays."""

    name: Name | None = None
    quotas: QuotasIn | None = None
    sql_views: bool | None = Field(None, strict=True, description=_SQL_VIEWS)

    @model_validator(mode="after")
    def _changes_something(self) -> Self:
        given = self.model_fields_set
        if not given or any(getattr(self, name) is None for name in given):
            raise ValueError("one of name, quotas and sql_views is needed, and none is null")
        return self


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


class TenantFullOut(TenantOut):
    """A tenant and what it may use."""

    quotas: QuotasOut
    sql_views: bool = Field(description=_SQL_VIEWS)


class NewTenantOut(TenantFullOut):
    """A tenant that was just made."""

    api_key: FirstKey


class KeyFacts(BaseModel):
    """The key of this request; of a token there is no id, and its subject is the name."""

    id: str | None
    name: str
    role: str
    knowledge_bases: list[str] | None
    user_id: str | None


class MeOut(BaseModel):
    """Who is calling; ``used`` says how much of those limits is gone that run out."""

    tenant: dict[str, str]
    key: KeyFacts
    limits: dict[str, int | float]
    used: dict[str, int]


def tenant_out(tenant: Tenant | ListedTenant) -> dict[str, Any]:
    """The wire form of a tenant."""
    return {"id": encode_id("ten", tenant.id), "name": tenant.name, "created_at": tenant.created_at}


def _full_out(tenant: Tenant) -> dict[str, Any]:
    quotas = QuotasOut.model_validate(asdict(Quotas.stored(tenant.quotas)))
    return {**tenant_out(tenant), "quotas": quotas, "sql_views": tenant.sql_views}


def _changes(quotas: QuotasIn | None) -> dict[str, Any] | None:
    return None if quotas is None else quotas.model_dump(exclude_unset=True)


def tenant_id(text: str) -> UUID:
    """The id in a path. Raises TenantNotFound for what is no tenant's id."""
    found = decode_id("ten", text)
    if found is None:
        raise TenantNotFound
    return found


@router.post("/tenants", status_code=201, response_model=NewTenantOut, tags=["tenants"])
async def create_tenant(body: TenantIn, resources: CurrentResources, operator: CurrentOperator) -> dict[str, Any]:
    """Make a tenant with its first admin key and the knowledge base ``default``."""
    by = Actor.of(operator.principal)
    tenant, issued = await resources.tenants.create(body.name, quotas=_changes(body.quotas), by=by)
    key = FirstKey(id=encode_id("key", issued.row.id), role=issued.row.role, key=issued.secret)
    return {**_full_out(tenant), "api_key": key}


@router.get("/tenants", response_model=Listing[TenantOut], tags=["tenants"])
async def list_tenants(page: CurrentPage, resources: CurrentResources, _: CurrentOperator) -> dict[str, Any]:
    """Tenants, newest first."""
    found = await resources.tenants.page(after=page.after(), limit=page.limit + 1)
    more = found[page.limit :]
    items = found[: page.limit]
    cursor = next_cursor(items[-1].created_at, items[-1].id) if more else None
    return {"items": [tenant_out(tenant) for tenant in items if tenant.deleted_at is None], "next_cursor": cursor}


@router.get("/tenants/{tenant}", response_model=TenantFullOut, tags=["tenants"])
async def get_tenant(tenant: str, resources: CurrentResources, _: CurrentOperator) -> dict[str, Any]:
    """One tenant."""
    return _full_out(await resources.tenants.get(tenant_id(tenant)))


@router.patch("/tenants/{tenant}", response_model=TenantFullOut, tags=["tenants"])
async def change_tenant(
    tenant: str, body: TenantChanges, resources: CurrentResources, operator: CurrentOperator
) -> dict[str, Any]:
    """Change a tenant's name, quotas, or permission for SQL views; it holds at once, on every replica."""
    by = Actor.of(operator.principal)
    changed = await resources.tenants.update(
        tenant_id(tenant), name=body.name, quotas=_changes(body.quotas), sql_views=body.sql_views, by=by
    )
    return _full_out(changed)


@router.delete(
    "/tenants/{tenant}",
    status_code=202,
    response_class=Response,
    tags=["tenants"],
    responses=told_by_header(202, "Its keys are shut out"),
)
async def delete_tenant(tenant: str, resources: CurrentResources, operator: CurrentOperator) -> Response:
    """Shut its keys out at once; rows, vectors and objects are removed by a job."""
    return gone(202, await resources.tenants.delete(tenant_id(tenant), by=Actor.of(operator.principal)))


@router.get("/me", response_model=MeOut, tags=["me"])
async def me(tenant: CurrentReader) -> dict[str, Any]:
    """The tenant and the key of this request, and the limits that hold for it."""
    principal = tenant.principal
    allowed = principal.knowledge_base_ids
    return {
        "tenant": {"id": encode_id("ten", principal.tenant_id), "name": principal.tenant_name},
        "key": KeyFacts(
            id=encode_id("key", principal.key_id) if principal.key_id and principal.subject is None else None,
            name=principal.key_name,
            role=principal.role.value,
            knowledge_bases=None if allowed is None else sorted(encode_id("kb", kb) for kb in allowed),
            user_id=principal.user_id,
        ),
        "limits": tenant.quotas.limits(),
        "used": await tenant.quotas.used(),
    }
