"""Tenants, which the operator manages, and ``/v1/me`` for every caller."""

from dataclasses import asdict
from typing import Annotated, Any, ClassVar, Self
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
from app.api.http import example_values
from app.api.http.etags import CurrentPrecondition
from app.api.http.path_parameters import TenantPath
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
    "Whether admins of the tenant may create SQL views of knowledge bases; the service must allow SQL views too."
)


class TenantQuotasRequest(QuotaLimits):
    """Quotas of a tenant; null removes a limit. If a field is left out, a new tenant gets the default of the service,
    and an existing tenant keeps its quota.
    """


class TenantQuotasOut(QuotaLimits):
    """Quotas of a tenant; null means that the default of the service applies, which may be no limit."""


class TenantCreate(StrictRequestModel):
    """New tenant."""

    name: TenantName = Field(description="Name of the tenant, 1 to 200 characters.", examples=["Example Corp"])
    quotas: TenantQuotasRequest | None = Field(
        None,
        description="Quotas of the tenant. Default: those of the service for new tenants.",
        examples=[{"documents": 1000}],
    )


class TenantUpdate(StrictRequestModel):
    """Changes of a tenant. Fields left out do not change. At least one field is required, and no field may be null."""

    name: TenantName | None = Field(
        None, description="Name of the tenant, 1 to 200 characters.", examples=["Example Corporation"]
    )
    quotas: TenantQuotasRequest | None = Field(None, description="Quotas to change.", examples=[{"documents": 5000}])
    sql_views: bool | None = Field(None, strict=True, description=_SQL_VIEWS_DESCRIPTION, examples=[True])

    @model_validator(mode="after")
    def _check_not_empty(self) -> Self:
        provided = self.model_fields_set
        if not provided or any(getattr(self, name) is None for name in provided):
            raise ValueError("one of name, quotas and sql_views is needed, and none is null")
        return self


class InitialApiKeyOut(BaseModel):
    """First API key of a tenant."""

    id: str = Field(description="Id of the API key.", examples=[example_values.API_KEY_ID])
    role: str = Field(description="Role of the API key.", examples=["admin"])
    key: str = Field(
        description="Secret of the API key. It is shown once.",
        examples=["carrel_0JrXq5mT9wLc2vBnK8dYf3hPzA6sGe1uR4oW7i"],
    )


class TenantOut(BaseModel):
    """Tenant."""

    id: str = Field(description="Id of the tenant.", examples=[example_values.TENANT_ID])
    name: str = Field(description="Name of the tenant.", examples=["Example Corp"])
    created_at: Time = Field(description="Time of creation, in UTC.", examples=[example_values.CREATED_AT])


class TenantList(ListResponse[TenantOut]):
    """Page of tenants."""


class TenantDetailOut(TenantOut):
    """Tenant with its quotas."""

    etag_fields: ClassVar = frozenset(TenantUpdate.model_fields)

    quotas: TenantQuotasOut = Field(description="Quotas of the tenant.")
    sql_views: bool = Field(description=_SQL_VIEWS_DESCRIPTION, examples=[False])


class NewTenantOut(TenantDetailOut):
    """Tenant with its first API key."""

    api_key: InitialApiKeyOut = Field(description="First API key, with the role `admin`.")


class CallerKeyOut(BaseModel):
    """Credential of the request: an API key, or a token of an identity provider."""

    id: str | None = Field(
        description="Id of the API key; null for a token of an identity provider.", examples=[example_values.API_KEY_ID]
    )
    name: str = Field(description="Name of the API key, or subject of the token.", examples=["backend"])
    role: str = Field(description="Role: `reader`, `writer`, `admin` or `operator`.", examples=["writer"])
    knowledge_bases: list[str] | None = Field(
        description="Ids of the knowledge bases that the key is restricted to; null without this restriction.",
        examples=[[example_values.KNOWLEDGE_BASE_ID]],
    )
    user_id: str | None = Field(
        description="User that the key is restricted to; null without this restriction.", examples=[None]
    )


class CallerOut(BaseModel):
    """Tenant, API key and limits of the caller."""

    tenant: dict[str, str] = Field(
        description="`id` and `name` of the tenant.",
        examples=[{"id": example_values.TENANT_ID, "name": "Example Corp"}],
    )
    key: CallerKeyOut = Field(description="API key or token of the request.")
    limits: dict[str, int | float] = Field(
        description="Limits of the caller by the name of the quota. A quota without a limit is left out.",
        examples=[{"documents": 1000, "searches_per_second": 20.0}],
    )
    usage: dict[str, int] = Field(
        description="Current usage of limits that can be used up, by the name of the quota.",
        examples=[{"documents": 12, "embedding_tokens_per_day": 5610}],
    )


def to_tenant_out(tenant: TenantRow | ListedTenant) -> dict[str, Any]:
    """Return the fields of a tenant for the response."""
    return {"id": encode_id("ten", tenant.id), "name": tenant.name, "created_at": tenant.created_at}


def _to_tenant_detail_out(tenant: TenantRow) -> dict[str, Any]:
    quotas = TenantQuotasOut.model_validate(asdict(Quotas.from_json(tenant.quotas)))
    return {**to_tenant_out(tenant), "quotas": quotas, "sql_views": tenant.sql_views}


def _to_quota_changes(quotas: TenantQuotasRequest | None) -> dict[str, Any] | None:
    return None if quotas is None else quotas.model_dump(exclude_unset=True)


def decode_tenant_id(text: str) -> UUID:
    """Decode the id of a tenant in a path.

    Raises:
        TenantNotFound: The text is no id of a tenant.
    """
    decoded = decode_id("ten", text)
    if decoded is None:
        raise TenantNotFound
    return decoded


@router.post("/tenants", summary="Create a tenant", status_code=201, response_model=NewTenantOut, tags=["tenants"])
async def create_tenant(body: TenantCreate, resources: CurrentResources, operator: CurrentOperator) -> dict[str, Any]:
    """Create a tenant with an admin key and the knowledge base `default`. The secret of the key is shown once."""
    actor = Actor.from_principal(operator.principal)
    tenant, issued = await resources.tenants.create(body.name, quotas=_to_quota_changes(body.quotas), actor=actor)
    key = InitialApiKeyOut(id=encode_id("key", issued.row.id), role=issued.row.role, key=issued.secret)
    return {**_to_tenant_detail_out(tenant), "api_key": key}


@router.get("/tenants", summary="List tenants", response_model=TenantList, tags=["tenants"])
async def list_tenants(page: CurrentPageParams, resources: CurrentResources, _: CurrentOperator) -> dict[str, Any]:
    """Return the tenants, newest first."""
    rows = await resources.tenants.list_tenants(after=page.parse_cursor(), limit=page.row_limit)
    overflow = rows[page.limit :]
    items = rows[: page.limit]
    cursor = encode_cursor(items[-1].created_at, items[-1].id) if overflow else None
    return page.build_reply([to_tenant_out(tenant) for tenant in items if tenant.deleted_at is None], cursor)


@router.get("/tenants/{tenant}", summary="Get a tenant", response_model=TenantDetailOut, tags=["tenants"])
async def get_tenant(tenant: TenantPath, resources: CurrentResources, _: CurrentOperator) -> dict[str, Any]:
    """Return a tenant with its quotas."""
    return _to_tenant_detail_out(await resources.tenants.get(decode_tenant_id(tenant)))


@router.patch("/tenants/{tenant}", summary="Update a tenant", response_model=TenantDetailOut, tags=["tenants"])
async def update_tenant(
    tenant: TenantPath,
    body: TenantUpdate,
    resources: CurrentResources,
    operator: CurrentOperator,
    precondition: CurrentPrecondition,
) -> dict[str, Any]:
    """Change name, quotas or permission for SQL views of a tenant. The change applies to all processes at once."""
    actor = Actor.from_principal(operator.principal)
    updated = await resources.tenants.update(
        decode_tenant_id(tenant),
        name=body.name,
        quotas=_to_quota_changes(body.quotas),
        sql_views=body.sql_views,
        actor=actor,
        check=precondition.build_check(TenantDetailOut, _to_tenant_detail_out),
    )
    return _to_tenant_detail_out(updated)


@router.delete(
    "/tenants/{tenant}",
    summary="Delete a tenant",
    status_code=202,
    response_class=Response,
    tags=["tenants"],
    responses=describe_deletion_header(202, "The tenant is deleted, and its contents are being removed"),
)
async def delete_tenant(tenant: TenantPath, resources: CurrentResources, operator: CurrentOperator) -> Response:
    """Delete a tenant. Its API keys are refused at once. Its rows, vectors and objects are removed in the background.

    The header `Carrel-Deletion-Id` names the receipt.
    """
    return create_deletion_response(
        202, await resources.tenants.delete(decode_tenant_id(tenant), actor=Actor.from_principal(operator.principal))
    )


@router.get("/me", summary="Get the caller", response_model=CallerOut, tags=["me"])
async def get_caller(tenant: CurrentReader) -> dict[str, Any]:
    """Return tenant, API key, limits and usage of the caller."""
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
