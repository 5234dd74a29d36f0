"""API keys of a tenant."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field, StringConstraints

from app.access import Role
from app.api.dependencies import CurrentAdmin, CurrentPage, GuardedRoute, next_cursor
from app.api.v1.schemas import STORABLE, GivenTime, Input, Listing, ScopeId, Text, Time
from app.db.models.control_plane import ApiKey
from app.errors import Forbidden
from app.ids import decode_id, encode_id
from app.tenants.types import ApiKeyNotFound

router = APIRouter(prefix="/api-keys", tags=["api keys"], route_class=GuardedRoute)


class ApiKeyIn(Input):
    """A new key. Narrowed to some knowledge bases it sees no others.

    Narrowed to a user it reads what is the tenant's, and of all users and chats only that user's; it writes only there.
    """

    name: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200), STORABLE]
    role: Literal["admin", "writer", "reader"]
    knowledge_bases: Annotated[list[Text], Field(min_length=1, max_length=100)] | None = None
    user_id: ScopeId | None = None
    expires_at: GivenTime | None = None


class ApiKeyOut(BaseModel):
    """A key without its secret; ``hint`` is how it begins."""

    id: str
    name: str
    role: str
    hint: str
    knowledge_bases: list[str] | None
    user_id: str | None
    created_at: Time
    expires_at: Time | None


class NewApiKeyOut(ApiKeyOut):
    """A key that was just made; ``key`` is shown this once."""

    key: str


def _out(row: ApiKey) -> dict[str, Any]:
    allowed = row.knowledge_base_ids
    return {
        "id": encode_id("key", row.id),
        "name": row.name,
        "role": row.role,
        "hint": row.hint,
        "knowledge_bases": None if allowed is None else [encode_id("kb", kb) for kb in allowed],
        "user_id": row.user_id,
        "created_at": row.created_at,
        "expires_at": row.expires_at,
    }


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
    )
    return {**_out(issued.row), "key": issued.secret}


@router.get("", response_model=Listing[ApiKeyOut])
async def list_api_keys(page: CurrentPage, tenant: CurrentAdmin) -> dict[str, Any]:
    """Keys that are not revoked, newest first."""
    _whole(tenant)
    found = await tenant.keys.page(after=page.after(), limit=page.limit + 1)
    items = found[: page.limit]
    cursor = next_cursor(items[-1].created_at, items[-1].id) if found[page.limit :] else None
    return {"items": [_out(row) for row in items], "next_cursor": cursor}


@router.delete("/{api_key}", status_code=204)
async def revoke_api_key(api_key: str, tenant: CurrentAdmin) -> Response:
    """Refused from now on, everywhere."""
    _whole(tenant)
    found = decode_id("key", api_key)
    if found is None:
        raise ApiKeyNotFound
    await tenant.keys.revoke(found)
    return Response(status_code=204)
