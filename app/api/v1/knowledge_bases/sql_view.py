"""A knowledge base as a view in the database, for an agent platform that reads a pgvector table itself."""

from typing import Any, Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from app.api.dependencies import AuthenticatedRoute, CurrentAdmin
from app.api.http.problems import PROBLEM_RESPONSE
from app.api.http.warning_schema import WarningOut, to_warnings_out
from app.api.v1.schemas import StrictRequestModel, Time
from app.ids import encode_id
from app.sql_views.types import COLLECTION_PATTERN, CONTENT_KEY_PATTERN, SqlViewDetails

router = APIRouter(prefix="/knowledge-bases/{kb}/sql-view", tags=["sql views"], route_class=AuthenticatedRoute)


class SqlViewCreate(StrictRequestModel):
    """What the platform is to find; without a ``collection`` the view has the knowledge base's name."""

    collection: str | None = Field(None, pattern=COLLECTION_PATTERN, description="The view's name; not `pg_…`")
    content_key: str = Field("content", pattern=CONTENT_KEY_PATTERN, description="Where the text stands in `metadata`")


class ConnectionInfoOut(BaseModel):
    """The block for the platform's configuration; the password is not in it."""

    type: Literal["pgvector"]
    hostname: str
    port: int
    user: str
    dbname: str
    sslmode: str
    collection: str
    content_key: str
    embedding_model: str
    embedding_dimensions: int


class SqlViewOut(BaseModel):
    """``preparing`` until a job has made the view; ``blocked_reason`` says why no job makes it."""

    id: str
    state: Literal["preparing", "ready"]
    blocked_reason: str | None = Field(description="`no_owner`: the workers have no CARREL_ADMIN_DATABASE_URL")
    connection: ConnectionInfoOut
    warnings: list[WarningOut]
    created_at: Time


class NewSqlViewOut(SqlViewOut):
    """With the password, which is told this once."""

    password: str


def _to_sql_view_out(view: SqlViewDetails) -> dict[str, Any]:
    stored = view.stored
    return {
        "id": encode_id("sqlv", stored.id),
        "state": "ready" if stored.is_ready else "preparing",
        "blocked_reason": stored.blocked_reason,
        "connection": view.connection_info,
        "warnings": to_warnings_out(view.warnings),
        "created_at": stored.created_at,
    }


@router.post(
    "",
    status_code=202,
    response_model=NewSqlViewOut,
    responses={
        409: {
            "description": "A SQL view exists, is not allowed, or the kind is http",
            **PROBLEM_RESPONSE,
        }
    },
)
async def create_sql_view(kb: str, tenant: CurrentAdmin, body: SqlViewCreate | None = None) -> dict[str, Any]:
    """Make a read-only view with `id`, `vec` and `metadata`, and a database role that sees it and nothing else.

    The view shows the live index's chunks of the documents of the tenant's level; those of users, chats and the shared
    level, dynamic and expired ones are never in it.
    """
    body = body or SqlViewCreate()
    view, password = await tenant.sql_views.create(kb, collection=body.collection, content_key=body.content_key)
    return {**_to_sql_view_out(view), "password": password}


@router.get("", response_model=SqlViewOut)
async def get_sql_view(kb: str, tenant: CurrentAdmin) -> dict[str, Any]:
    """Return the SQL view of a knowledge base, without the password."""
    return _to_sql_view_out(await tenant.sql_views.get(kb))


@router.delete("", status_code=204)
async def revoke_sql_view(kb: str, tenant: CurrentAdmin) -> Response:
    """The view shows nothing from now on; a job ends its sessions and drops view, schema and role."""
    await tenant.sql_views.revoke(kb)
    return Response(status_code=204)
