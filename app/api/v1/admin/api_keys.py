"""API keys of a tenant."""

from datetime import timedelta
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field, StringConstraints

from app.api.dependencies import AuthenticatedRoute, CurrentAdmin, CurrentPageParams, encode_cursor
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
    """What a key may use of what its tenant may; null is without a limit of its own.

    What is stored counts for the key that has uploaded the newest version of it.
    """


class ApiKeyCreate(StrictRequestModel):
    """A new key. Narrowed to some knowledge bases it sees no others.

    Narrowed to a user it reads what is the tenant's, and of all users and chats only that user's; it writes only there.
    """

    name: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200), STORABLE]
    role: Literal["admin", "writer", "reader"]
    knowledge_bases: Annotated[list[Text], Field(min_length=1, max_length=100)] | None = None
    user_id: ScopeId | None = None
    expires_at: ProvidedTime | None = None
    quotas: ApiKeyQuotas = ApiKeyQuotas()


class ApiKeyRotateRequest(StrictRequestModel):
    """How long the old key goes on beside the new one."""

    overlap_seconds: Annotated[int, Field(ge=0, le=30 * DAY_SECONDS)] = DAY_SECONDS


class ApiKeyOut(BaseModel):
    """A key without its secret; ``hint`` is how it begins.

    ``last_used_at`` is true to the minute; ``replaced_by`` is the key that rotation has made in its place.
    """

    id: str
    name: str
    role: str
    hint: str
    knowledge_bases: list[str] | None
    user_id: str | None
    created_at: Time
    expires_at: Time | None
    last_used_at: Time | None
    replaced_by: str | None
    quotas: ApiKeyQuotas


class ApiKeyList(ListResponse[ApiKeyOut]):
    """A page of API keys."""


class NewApiKeyOut(ApiKeyOut):
    """A key that was just made; ``key`` is shown this once."""

    key: str


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
    """A narrowed key must not make, see or revoke keys that reach further than itself."""
    if tenant.principal.knowledge_base_ids is not None or tenant.principal.user_id is not None:
        raise ForbiddenError("A key that is narrowed cannot manage keys.")


@router.post("", status_code=201, response_model=NewApiKeyOut)
async def create_api_key(body: ApiKeyCreate, tenant: CurrentAdmin) -> dict[str, Any]:
    """Make a key; the secret is in this reply and nowhere else."""
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


@router.get("", response_model=ApiKeyList)
async def list_api_keys(page: CurrentPageParams, tenant: CurrentAdmin) -> dict[str, Any]:
    """Keys that are not revoked, newest first."""
    _require_unrestricted_key(tenant)
    keys = await tenant.keys.list_keys(after=page.parse_cursor(), limit=page.limit + 1)
    items = keys[: page.limit]
    last = items[-1].row if keys[page.limit :] else None
    cursor = encode_cursor(last.created_at, last.id) if last else None
    return {"items": [_to_api_key_out(listed) for listed in items], "next_cursor": cursor}


@router.post("/{api_key}/rotate", status_code=201, response_model=NewApiKeyOut)
async def rotate_api_key(api_key: str, tenant: CurrentAdmin, body: ApiKeyRotateRequest | None = None) -> dict[str, Any]:
    """Make a key with the role, narrowing, name and end of another, which ends after the overlap."""
    _require_unrestricted_key(tenant)
    overlap = timedelta(seconds=(body or ApiKeyRotateRequest()).overlap_seconds)
    return _to_new_api_key_out(await tenant.keys.rotate(_decode_key_id(api_key), overlap=overlap))


@router.delete("/{api_key}", status_code=204)
async def revoke_api_key(api_key: str, tenant: CurrentAdmin) -> Response:
    """Refused from now on, everywhere."""
    _require_unrestricted_key(tenant)
    await tenant.keys.revoke(_decode_key_id(api_key))
    return Response(status_code=204)
