"""SQL view of a knowledge base, for platforms that read a pgvector table themselves."""

from typing import Any, Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from app.api.dependencies import AuthenticatedRoute, CurrentAdmin
from app.api.http import example_values
from app.api.http.path_parameters import KnowledgeBasePath
from app.api.http.warning_schema import WarningOut, to_warnings_out
from app.api.v1.schemas import StrictRequestModel, Time
from app.ids import encode_id
from app.sql_views.types import COLLECTION_PATTERN, CONTENT_KEY_PATTERN, SqlViewDetails

router = APIRouter(prefix="/knowledge-bases/{kb}/sql-view", tags=["sql views"], route_class=AuthenticatedRoute)


class SqlViewCreate(StrictRequestModel):
    """New SQL view."""

    collection: str | None = Field(
        None,
        pattern=COLLECTION_PATTERN,
        description="Name of the view; not one that begins with `pg_`. Default: the name of the knowledge base.",
        examples=["handbook"],
    )
    content_key: str = Field(
        "content",
        pattern=CONTENT_KEY_PATTERN,
        description="Key of the text in the column `metadata`.",
        examples=["content"],
    )


class ConnectionInfoOut(BaseModel):
    """Connection settings for the platform, without the password."""

    type: Literal["pgvector"] = Field(description="Type of the vector store.", examples=["pgvector"])
    hostname: str = Field(description="Host of the database.", examples=["db.example.com"])
    port: int = Field(description="Port of the database.", examples=[5432])
    user: str = Field(description="Database role, which can read the view only.", examples=["carrel_view_01jqstxaq0"])
    dbname: str = Field(description="Name of the database.", examples=["carrel"])
    sslmode: str = Field(description="TLS mode of libpq, such as `require`.", examples=["require"])
    collection: str = Field(description="Name of the view.", examples=["handbook"])
    content_key: str = Field(description="Key of the text in the column `metadata`.", examples=["content"])
    embedding_model: str = Field(description="Embedding model that queries need.", examples=["bge-small-en-v1.5"])
    embedding_dimensions: int = Field(description="Number of dimensions of the vectors.", examples=[384])


class SqlViewOut(BaseModel):
    """SQL view of a knowledge base."""

    id: str = Field(description="Id of the SQL view.", examples=[example_values.SQL_VIEW_ID])
    state: Literal["preparing", "ready"] = Field(
        description="`preparing` until a job has created the view, then `ready`.", examples=["ready"]
    )
    blocked_reason: str | None = Field(
        description="Reason why no job creates the view: `no_owner` means that no worker has "
        "`CARREL_ADMIN_DATABASE_URL`. Null otherwise.",
        examples=[None],
    )
    connection: ConnectionInfoOut = Field(description="Connection settings for the platform.")
    warnings: list[WarningOut] = Field(
        description="Warnings: for example, that the connection is not encrypted.", examples=[[]]
    )
    created_at: Time = Field(description="Time of creation, in UTC.", examples=[example_values.CREATED_AT])


class NewSqlViewOut(SqlViewOut):
    """SQL view with its password."""

    password: str = Field(
        description="Password of the database role. It is shown once.", examples=["0f9Kx2vQ7mZr4TtB8nYw1LcD"]
    )


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
    summary="Create a SQL view",
    status_code=202,
    response_model=NewSqlViewOut,
)
async def create_sql_view(
    kb: KnowledgeBasePath, tenant: CurrentAdmin, body: SqlViewCreate | None = None
) -> dict[str, Any]:
    """Create a read-only view with the columns `id`, `vec` and `metadata`, and a database role that can read only this
    view.

    The view has the chunks of the live search index at the level of the tenant. The view never has documents of users,
    chats or the shared level, and no dynamic or expired documents.
    """
    body = body or SqlViewCreate()
    view, password = await tenant.sql_views.create(kb, collection=body.collection, content_key=body.content_key)
    return {**_to_sql_view_out(view), "password": password}


@router.get("", summary="Get a SQL view", response_model=SqlViewOut)
async def get_sql_view(kb: KnowledgeBasePath, tenant: CurrentAdmin) -> dict[str, Any]:
    """Return the SQL view of a knowledge base, without the password."""
    return _to_sql_view_out(await tenant.sql_views.get(kb))


@router.delete("", summary="Revoke a SQL view", status_code=204)
async def revoke_sql_view(kb: KnowledgeBasePath, tenant: CurrentAdmin) -> Response:
    """Revoke the SQL view of a knowledge base. It is empty from now on; a job ends its sessions and drops view, schema
    and role.
    """
    await tenant.sql_views.revoke(kb)
    return Response(status_code=204)
