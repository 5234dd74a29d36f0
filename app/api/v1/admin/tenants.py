"""The operator's routes: tenants; and ``/v1/me`` for everybody."""

from dataclasses import asdict
from typing import Annotated, Any, Self
from uuid import UUID

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field, StringConstraints, model_validator

from app.api.dependencies import (
    AuthenticatedRoute,
    CurrentOperator,
    CurrentPageParams,
    CurrentReader,
    CurrentResources,
    encode_cursor,
)
from app.api.http.request_models import STORABLE
from app.api.v1.deletion_header import create_deletion_response, describe_deletion_header
from app.api.v1.schemas import ListResponse, StrictRequestModel, Time
from app.audit.types import Actor
from app.db.models.control_plane import TenantRow
from app.db.models.control_plane_rows import ListedTenant
from app.ids import decode_id, encode_id
from app.principal import Quotas
from app.settings import QuotaLimits
from app.tenants.types import TenantNotFound

router = APIRouter(route_class=AuthenticatedRoute)
TenantName = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200), STORABLE]


_SQL_VIEWS_DESCRIPTION = (
    "Whether admins of the tenant may publish knowledge bases as SQL views, where the service allows it at all"
)


class TenantQuotasRequest(QuotaLimits):
    """What a tenant may use; null is without a limit. What is left out is as the service gives it, or stays."""


class TenantQuotasOut(QuotaLimits):
    """What a tenant may use; null is without a limit."""


class TenantCreate(StrictRequestModel):
    """A new tenant."""

    name: TenantName
    quotas: TenantQuotasRequest | None = None


class TenantUpdate(StrictRequestModel):
    """What changes of a tenant; what is left out stays."""

    name: TenantName | None = None
    quotas: TenantQuotasRequest | None = None
    sql_views: bool | None = Field(None, strict=True, description=_SQL_VIEWS_DESCRIPTION)

    @model_validator(mode="after")
    def _check_not_empty(self) -> Self:
        provided = self.model_fields_set
        if not provided or any(getattr(self, name) is None for name in provided):
            raise ValueError("one of name, quotas and sql_views is needed, and none is null")
        return self


class InitialApiKeyOut(BaseModel):
    """The tenant's first key, shown once."""

    id: str
    role: str
    key: str


class TenantOut(BaseModel):
    """A tenant."""

    id: str
    name: str
    created_at: Time


class TenantList(ListResponse[TenantOut]):
    """A page of tenants."""


class TenantDetailOut(TenantOut):
    """A tenant and what it may use."""

    quotas: TenantQuotasOut
    sql_views: bool = Field(description=_SQL_VIEWS_DESCRIPTION)


class NewTenantOut(TenantDetailOut):
    """A tenant that was just made."""

    api_key: InitialApiKeyOut


class CallerKeyOut(BaseModel):
    """The key of this request; of a token there is no id, and its subject is the name."""

    id: str | None
    name: str
    role: str
    knowledge_bases: list[str] | None
    user_id: str | None


class CallerOut(BaseModel):
    """Who is calling; ``usage`` says how much of the limits that can run out is used."""

    tenant: dict[str, str]
    key: CallerKeyOut
    limits: dict[str, int | float]
    usage: dict[str, int]


def to_tenant_out(tenant: TenantRow | ListedTenant) -> dict[str, Any]:
    """The wire form of a tenant."""
    return {"id": encode_id("ten", tenant.id), "name": tenant.name, "created_at": tenant.created_at}


def _to_tenant_detail_out(tenant: TenantRow) -> dict[str, Any]:
    quotas = TenantQuotasOut.model_validate(asdict(Quotas.from_json(tenant.quotas)))
    return {**to_tenant_out(tenant), "quotas": quotas, "sql_views": tenant.sql_views}


def _to_quota_changes(quotas: TenantQuotasRequest | None) -> dict[str, Any] | None:
    return None if quotas is None else quotas.model_dump(exclude_unset=True)


def decode_tenant_id(text: str) -> UUID:
    """The id in a path. Raises TenantNotFound for what is no tenant's id."""
    decoded = decode_id("ten", text)
    if decoded is None:
        raise TenantNotFound
    return decoded


@router.post("/tenants", status_code=201, response_model=NewTenantOut, tags=["tenants"])
async def create_tenant(body: TenantCreate, resources: CurrentResources, operator: CurrentOperator) -> dict[str, Any]:
    """Make a tenant with its first admin key and the knowledge base ``default``."""
    actor = Actor.from_principal(operator.principal)
    tenant, issued = await resources.tenants.create(body.name, quotas=_to_quota_changes(body.quotas), actor=actor)
    key = InitialApiKeyOut(id=encode_id("key", issued.row.id), role=issued.row.role, key=issued.secret)
    return {**_to_tenant_detail_out(tenant), "api_key": key}


@router.get("/tenants", response_model=TenantList, tags=["tenants"])
async def list_tenants(page: CurrentPageParams, resources: CurrentResources, _: CurrentOperator) -> dict[str, Any]:
    """Tenants, newest first."""
    rows = await resources.tenants.list_tenants(after=page.parse_cursor(), limit=page.limit + 1)
    overflow = rows[page.limit :]
    items = rows[: page.limit]
    cursor = encode_cursor(items[-1].created_at, items[-1].id) if overflow else None
    return {"items": [to_tenant_out(tenant) for tenant in items if tenant.deleted_at is None], "next_cursor": cursor}


@router.get("/tenants/{tenant}", response_model=TenantDetailOut, tags=["tenants"])
async def get_tenant(tenant: str, resources: CurrentResources, _: CurrentOperator) -> dict[str, Any]:
    """One tenant."""
    return _to_tenant_detail_out(await resources.tenants.get(decode_tenant_id(tenant)))


@router.patch("/tenants/{tenant}", response_model=TenantDetailOut, tags=["tenants"])
async def update_tenant(
    tenant: str, body: TenantUpdate, resources: CurrentResources, operator: CurrentOperator
) -> dict[str, Any]:
    """Change a tenant's name, quotas, or permission for SQL views; it holds at once, on every replica."""
    actor = Actor.from_principal(operator.principal)
    updated = await resources.tenants.update(
        decode_tenant_id(tenant),
        name=body.name,
        quotas=_to_quota_changes(body.quotas),
        sql_views=body.sql_views,
        actor=actor,
    )
    return _to_tenant_detail_out(updated)


@router.delete(
    "/tenants/{tenant}",
    status_code=202,
    response_class=Response,
    tags=["tenants"],
    responses=describe_deletion_header(202, "Its keys are shut out"),
)
async def delete_tenant(tenant: str, resources: CurrentResources, operator: CurrentOperator) -> Response:
    """Shut its keys out at once; rows, vectors and objects are removed by a job."""
    return create_deletion_response(
        202, await resources.tenants.delete(decode_tenant_id(tenant), actor=Actor.from_principal(operator.principal))
    )


@router.get("/me", response_model=CallerOut, tags=["me"])
async def get_caller(tenant: CurrentReader) -> dict[str, Any]:
    """The tenant and the key of this request, and the limits that hold for it."""
    principal = tenant.principal
    allowed = principal.knowledge_base_ids
    return {
        "tenant": {"id": encode_id("ten", principal.tenant_id), "name": principal.tenant_name},
        "key": CallerKeyOut(
            id=encode_id("key", principal.key_id) if principal.key_id and principal.subject is None else None,
            name=principal.key_name,
            role=principal.role.value,
            knowledge_bases=None if allowed is None else sorted(encode_id("kb", kb) for kb in allowed),
            user_id=principal.user_id,
        ),
        "limits": tenant.quotas.get_limits(),
        "usage": await tenant.quotas.get_usage(),
    }
