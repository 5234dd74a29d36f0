"""API keys of a tenant."""

from datetime import timedelta
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field, StringConstraints

from app.api.dependencies import AuthenticatedRoute, CurrentAdmin, CurrentPageParams, encode_cursor
from app.api.http import example_values
from app.api.http.path_parameters import ApiKeyPath
from app.api.http.request_models import STORABLE, Text
from app.api.v1.schemas import ListResponse, ScopeId, StrictRequestModel, Time
from app.db.models.control_plane import ApiKeyRow
from app.errors import ForbiddenError
from app.ids import decode_id, encode_id
from app.principal import Quotas, Role
from app.settings import KeyLimits
from app.tenants.types import ApiKeyNotFound, IssuedKey, ListedKey
from app.times import ProvidedTime

DAY_SECONDS = 86_400

router = APIRouter(prefix="/api-keys", tags=["api keys"], route_class=AuthenticatedRoute)


class ApiKeyQuotas(KeyLimits):
    """Quotas of an API key within those of its tenant; null for no separate limit.

    A document counts for the key that uploaded its newest version.
    """


class ApiKeyCreate(StrictRequestModel):
    """New API key.

    A key that is restricted to knowledge bases sees no other knowledge bases. A key that is restricted to a user reads
    documents at the level of the tenant, of the user and of the user's chats. It writes documents only at the levels of
    the user and of the user's chats.
    """

    name: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200), STORABLE] = Field(
        description="Name of the key, 1 to 200 characters.", examples=["backend"]
    )
    role: Literal["admin", "writer", "reader"] = Field(
        description="Role of the key: `reader` searches, `writer` also uploads, `admin` also manages the tenant.",
        examples=["writer"],
    )
    knowledge_bases: Annotated[list[Text], Field(min_length=1, max_length=100)] | None = Field(
        None,
        description="Ids or names of knowledge bases to restrict the key to, 1 to 100; null for no restriction.",
        examples=[["handbook"]],
    )
    user_id: ScopeId | None = Field(
        None, description="User to restrict the key to, 1 to 256 characters; null for no restriction.", examples=[None]
    )
    expires_at: ProvidedTime | None = Field(
        None,
        description="Time at which the key expires; null for never. A time with an offset, between the years 2 "
        "and 9998 in UTC.",
        examples=["2027-01-01T00:00:00Z"],
    )
    quotas: ApiKeyQuotas = Field(
        ApiKeyQuotas(), description="Quotas of the key.", examples=[{"searches_per_second": 20.0}]
    )


class ApiKeyRotateRequest(StrictRequestModel):
    """Rotation of an API key: the time for which the old key stays valid."""

    overlap_seconds: Annotated[int, Field(ge=0, le=30 * DAY_SECONDS)] = Field(
        DAY_SECONDS,
        description="Seconds for which the old key stays valid, 0 to 2,592,000 (30 days).",
        examples=[86400],
    )


class ApiKeyOut(BaseModel):
    """API key without its secret."""

    id: str = Field(description="Id of the key.", examples=[example_values.API_KEY_ID])
    name: str = Field(description="Name of the key.", examples=["backend"])
    role: str = Field(description="Role of the key: `reader`, `writer` or `admin`.", examples=["writer"])
    hint: str = Field(description="First characters of the secret, to recognize it.", examples=["carrel_0JrX"])
    knowledge_bases: list[str] | None = Field(
        description="Ids of the knowledge bases that the key is restricted to; null without this restriction.",
        examples=[[example_values.KNOWLEDGE_BASE_ID]],
    )
    user_id: str | None = Field(
        description="User that the key is restricted to; null without this restriction.", examples=[None]
    )
    created_at: Time = Field(description="Time of creation, in UTC.", examples=[example_values.CREATED_AT])
    expires_at: Time | None = Field(
        description="Time at which the key expires, in UTC; null for never.", examples=["2027-01-01T00:00:00.000Z"]
    )
    last_used_at: Time | None = Field(
        description="Time of the last use, exact to the minute, in UTC; null if it was never used.",
        examples=[example_values.UPDATED_AT],
    )
    replaced_by: str | None = Field(
        description="Id of the key that replaced this one in a rotation; null without one.", examples=[None]
    )
    quotas: ApiKeyQuotas = Field(description="Quotas of the key.")


class ApiKeyList(ListResponse[ApiKeyOut]):
    """Page of API keys."""


class NewApiKeyOut(ApiKeyOut):
    """API key with its secret."""

    key: str = Field(
        description="Secret of the key. It is shown once.", examples=["carrel_0JrXq5mT9wLc2vBnK8dYf3hPzA6sGe1uR4oW7i"]
    )


def _to_quotas_out(row: ApiKeyRow) -> ApiKeyQuotas:
    quotas = Quotas.from_json(row.quotas)
    return ApiKeyQuotas.model_validate({name: getattr(quotas, name) for name in ApiKeyQuotas.model_fields})


def _to_api_key_out(listed: ListedKey) -> dict[str, Any]:
    row, allowed = listed.row, listed.row.knowledge_base_ids
    return {
        "id": encode_id("key", row.id),
        "name": row.name,
        "role": row.role,
        "hint": row.hint,
        "knowledge_bases": None if allowed is None else [encode_id("kb", kb) for kb in allowed],
        "user_id": row.user_id,
        "created_at": row.created_at,
        "expires_at": row.expires_at,
        "last_used_at": listed.last_used_at,
        "replaced_by": encode_id("key", row.replaced_by) if row.replaced_by else None,
        "quotas": _to_quotas_out(row),
    }


def _to_new_api_key_out(issued: IssuedKey) -> dict[str, Any]:
    return {**_to_api_key_out(ListedKey(issued.row, None)), "key": issued.secret}


def _decode_key_id(text: str) -> UUID:
    key_id = decode_id("key", text)
    if key_id is None:
        raise ApiKeyNotFound
    return key_id


def _require_unrestricted_key(tenant: CurrentAdmin) -> None:
    """Raise ForbiddenError for a restricted key, because it must not manage keys with more access than its own."""
    if tenant.principal.knowledge_base_ids is not None or tenant.principal.user_id is not None:
        raise ForbiddenError("A restricted key cannot manage keys. Use an unrestricted key.")


@router.post("", summary="Create an API key", status_code=201, response_model=NewApiKeyOut)
async def create_api_key(body: ApiKeyCreate, tenant: CurrentAdmin) -> dict[str, Any]:
    """Create an API key. The secret is in this response and nowhere else. A restricted key cannot create keys."""
    _require_unrestricted_key(tenant)
    allowed = None
    if body.knowledge_bases is not None:
        allowed = list({(await tenant.knowledge_bases.find(name)).row.id for name in body.knowledge_bases})
    issued = await tenant.keys.issue(
        body.name,
        Role(body.role),
        knowledge_base_ids=allowed,
        user_id=body.user_id,
        expires_at=body.expires_at,
        quotas=Quotas(**body.quotas.model_dump()),
    )
    return _to_new_api_key_out(issued)


@router.get("", summary="List API keys", response_model=ApiKeyList)
async def list_api_keys(page: CurrentPageParams, tenant: CurrentAdmin) -> dict[str, Any]:
    """Return the API keys that are not revoked, newest first, without their secrets."""
    _require_unrestricted_key(tenant)
    keys = await tenant.keys.list_keys(after=page.parse_cursor(), limit=page.row_limit)
    items = keys[: page.limit]
    last = items[-1].row if keys[page.limit :] else None
    cursor = encode_cursor(last.created_at, last.id) if last else None
    return page.build_reply([_to_api_key_out(listed) for listed in items], cursor)


@router.post("/{api_key}/rotate", summary="Rotate an API key", status_code=201, response_model=NewApiKeyOut)
async def rotate_api_key(
    api_key: ApiKeyPath, tenant: CurrentAdmin, body: ApiKeyRotateRequest | None = None
) -> dict[str, Any]:
    """Create a replacement of an API key with the same name, role, restrictions and expiry. The old key expires after
    `overlap_seconds`.
    """
    _require_unrestricted_key(tenant)
    overlap = timedelta(seconds=(body or ApiKeyRotateRequest()).overlap_seconds)
    return _to_new_api_key_out(await tenant.keys.rotate(_decode_key_id(api_key), overlap=overlap))


@router.delete("/{api_key}", summary="Revoke an API key", status_code=204)
async def revoke_api_key(api_key: ApiKeyPath, tenant: CurrentAdmin) -> Response:
    """Revoke an API key. All processes of the service refuse the key immediately."""
    _require_unrestricted_key(tenant)
    await tenant.keys.revoke(_decode_key_id(api_key))
    return Response(status_code=204)
