"""API keys of a tenant."""

from datetime import timedelta
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field, StringConstraints

from app.access import Quotas, Role
from app.api.bodies import STORABLE, Text
from app.api.dependencies import CurrentAdmin, CurrentPage, GuardedRoute, next_cursor
from app.api.v1.schemas import Input, Listing, ScopeId, Time
from app.db.models.control_plane import ApiKey
from app.errors import Forbidden
from app.ids import decode_id, encode_id
from app.settings import KeyLimits
from app.tenants.types import ApiKeyNotFound, IssuedKey, ListedKey
from app.times import GivenTime

DAY_SECONDS = 86_400

router = APIRouter(prefix="/api-keys", tags=["api keys"], route_class=GuardedRoute)


class KeyQuotas(KeyLimits):
    """What a key may use of what its tenant may; null is without a limit of its own.

    What is stored counts for the key that has uploaded the newest version of it.
    """


class ApiKeyIn(Input):
    """A new key. Narrowed to some knowledge bases it sees no others.

    Narrowed to a user it reads what is the tenant's, and of all users and chats only that user's; it writes only there.
    """

    name: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200), STORABLE]
    role: Literal["admin", "writer", "reader"]
    knowledge_bases: Annotated[list[Text], Field(min_length=1, max_length=100)] | None = None
    user_id: ScopeId | None = None
    expires_at: GivenTime | None = None
    quotas: KeyQuotas = KeyQuotas()


class RotationIn(Input):
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
    quotas: KeyQuotas


class NewApiKeyOut(ApiKeyOut):
    """A key that was just made; ``key`` is shown this once."""

    key: str


def _quotas_out(row: ApiKey) -> KeyQuotas:
    quotas = Quotas.stored(row.quotas)
    return KeyQuotas.model_validate({name: getattr(quotas, name) for name in KeyQuotas.model_fields})


def _out(listed: ListedKey) -> dict[str, Any]:
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
        "quotas": _quotas_out(row),
    }


def _new(issued: IssuedKey) -> dict[str, Any]:
    return {**_out(ListedKey(issued.row, None)), "key": issued.secret}


def _key_id(text: str) -> UUID:
    found = decode_id("key", text)
    if found is None:
        raise ApiKeyNotFound
    return found


def _whole(tenant: CurrentAdmin) -> None:
    """A narrowed key must not make, see or revoke keys that reach further than itself."""
    if tenant.principal.knowledge_base_ids is not None or tenant.principal.user_id is not None:
        raise Forbidden("A key that is narrowed cannot manage keys.")


@router.post("", status_code=201, response_model=NewApiKeyOut)
async def create_api_key(body: ApiKeyIn, tenant: CurrentAdmin) -> dict[str, Any]:
    """Make a key; the secret is in this reply and nowhere else."""
    _whole(tenant)
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
    return _new(issued)


@router.get("", response_model=Listing[ApiKeyOut])
async def list_api_keys(page: CurrentPage, tenant: CurrentAdmin) -> dict[str, Any]:
    """Keys that are not revoked, newest first."""
    _whole(tenant)
    found = await tenant.keys.page(after=page.after(), limit=page.limit + 1)
    items = found[: page.limit]
    last = items[-1].row if found[page.limit :] else None
    cursor = next_cursor(last.created_at, last.id) if last else None
    return {"items": [_out(listed) for listed in items], "next_cursor": cursor}


@router.post("/{api_key}/rotate", status_code=201, response_model=NewApiKeyOut)
async def rotate_api_key(api_key: str, tenant: CurrentAdmin, body: RotationIn | None = None) -> dict[str, Any]:
    """Make a key with the role, narrowing, name and end of another, which ends after the overlap."""
    _whole(tenant)
    overlap = timedelta(seconds=(body or RotationIn()).overlap_seconds)
    return _new(await tenant.keys.rotate(_key_id(api_key), overlap=overlap))


@router.delete("/{api_key}", status_code=204)
async def revoke_api_key(api_key: str, tenant: CurrentAdmin) -> Response:
    """Refused from now on, everywhere."""
    _whole(tenant)
    await tenant.keys.revoke(_key_id(api_key))
    return Response(status_code=204)
