"""SQL view of a knowledge base, for platforms that read a pgvector table themselves."""

import json
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import AfterValidator, BaseModel, Field

from app.api.dependencies import AuthenticatedRoute, CurrentAdmin
from app.api.http import example_values
from app.api.http.path_parameters import KnowledgeBasePath
from app.api.http.request_models import Text
from app.api.http.warning_schema import WarningOut, to_warnings_out
from app.api.http.yaml_responses import build_yaml_response, describe_yaml_response, needs_yaml
from app.api.v1.schemas import StrictRequestModel, Time
from app.ids import encode_id
from app.settings.sql_views import SslMode
from app.sql_views.connection_info import DEFAULT_PASSWORD_VARIABLE, DEFAULT_TOP_K, ConnectionOptions
from app.sql_views.types import COLLECTION_PATTERN, CONTENT_KEY_PATTERN, SqlViewDetails

VARIABLE_PATTERN = r"^[A-Za-z_][A-Za-z0-9_]{0,99}$"
_YAML_EXAMPLE = """type: pgvector
hostname: db.example.com
port: 5432
user: carrel_view_01jqstxaq0
password: ${SQL_VIEW_PASSWORD}
dbname: carrel
sslmode: require
collection: sql_view_0195f3a2c40074008000000000000000.handbook
content_key: content
metadata_filter: {}
embedding_model: openai/text-embedding-3-small
embedding_dimensions: 384
top_k: 5
"""

router = APIRouter(prefix="/knowledge-bases/{kb}/sql-view", tags=["sql views"], route_class=AuthenticatedRoute)


def _parse_json_object(text: str | None) -> str | None:
    """Check that a parameter is a JSON object. Raises ValueError."""
    try:
        value = {} if text is None else json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict) or "\\u0000" in (text or ""):
        raise ValueError("must be a JSON object")
    return text


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


class ConnectionInfoParams(StrictRequestModel):
    """Fields of the connection block that the caller may choose."""

    provider: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$",
        description="Provider of the embedding model on the platform. Default: `CARREL_SQL_VIEW_PROVIDER`; otherwise "
        "`local` for a local model, else `openai`.",
        examples=["openai"],
    )
    password_variable: str = Field(
        DEFAULT_PASSWORD_VARIABLE,
        pattern=VARIABLE_PATTERN,
        description="Environment variable of the platform that has the password.",
        examples=[DEFAULT_PASSWORD_VARIABLE],
    )
    top_k: int = Field(
        DEFAULT_TOP_K, ge=1, le=500, description="Number of rows that the platform reads, 1 to 500.", examples=[5]
    )
    metadata_filter: Annotated[str | None, AfterValidator(_parse_json_object)] = Field(
        None,
        max_length=10_000,
        description="Metadata that a row must contain, as a JSON object. The `metadata_filter` of the knowledge base "
        "takes precedence.",
        examples=['{"audience": "customers"}'],
    )
    prompt_id: Text | None = Field(
        None,
        max_length=200,
        description="Id of a prompt on the platform. Default: the answer prompt of the knowledge base.",
        examples=["support-answer"],
    )
    prompt_version: int | None = Field(
        None, ge=1, description="Version of the prompt. Default: the version in use; 1 for a `prompt_id`.", examples=[3]
    )

    def to_options(self) -> ConnectionOptions:
        """Convert the parameters to options of the connection block."""
        metadata_filter = json.loads(self.metadata_filter) if self.metadata_filter else {}
        return ConnectionOptions(**self.model_dump() | {"metadata_filter": metadata_filter})


class PromptReferenceOut(BaseModel):
    """Reference to a version of a prompt."""

    id: str = Field(description="Id of the prompt.", examples=["handbook/answer"])
    version: int = Field(description="Number of the version.", examples=[3])


class ConnectionInfoOut(BaseModel):
    """Connection block for the platform. The password is a reference to an environment variable."""

    type: Literal["pgvector"] = Field(description="Type of the vector store.", examples=["pgvector"])
    hostname: str = Field(description="Host of the database.", examples=["db.example.com"])
    port: int = Field(description="Port of the database.", examples=[5432])
    user: str = Field(description="Database role, which can read the view only.", examples=["carrel_view_01jqstxaq0"])
    password: str = Field(
        description="Reference to the environment variable with the password.", examples=["${SQL_VIEW_PASSWORD}"]
    )
    dbname: str = Field(description="Name of the database.", examples=["carrel"])
    sslmode: SslMode = Field(description="TLS mode of libpq.", examples=["require"])
    collection: str = Field(
        description="Name of the view with its schema.",
        examples=["sql_view_0195f3a2c40074008000000000000000.handbook"],
    )
    content_key: str = Field(description="Key of the text in the column `metadata`.", examples=["content"])
    metadata_filter: dict[str, Any] = Field(
        description="Metadata that a row must contain; empty for all rows.", examples=[{"department": "hr"}]
    )
    embedding_model: str = Field(
        description="Embedding model that queries need, as `provider/model`.",
        examples=["openai/text-embedding-3-small"],
    )
    embedding_dimensions: int = Field(description="Number of dimensions of the vectors.", examples=[384])
    top_k: int = Field(description="Number of rows that the platform reads.", examples=[5])
    prompt: PromptReferenceOut | None = Field(description="Prompt for answers; null without one.")


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


@router.get(
    "",
    summary="Get a SQL view",
    response_model=SqlViewOut,
    responses=describe_yaml_response("SQL view; in YAML, its connection block alone", _YAML_EXAMPLE),
)
async def get_sql_view(
    kb: KnowledgeBasePath, params: Annotated[ConnectionInfoParams, Query()], tenant: CurrentAdmin, request: Request
) -> Any:
    """Return the SQL view of a knowledge base, without the password.

    With `Accept: application/yaml`, the reply is the connection block alone, ready for the configuration of a platform.
    Its warnings are comments.
    """
    view = await tenant.sql_views.get(kb, params.to_options())
    if needs_yaml(request):
        return build_yaml_response(view.connection_info, view.warnings)
    return _to_sql_view_out(view)


@router.delete("", summary="Revoke a SQL view", status_code=204)
async def revoke_sql_view(kb: KnowledgeBasePath, tenant: CurrentAdmin) -> Response:
    """Revoke the SQL view of a knowledge base. It is empty from now on; a job ends its sessions and drops view, schema
    and role.
    """
    await tenant.sql_views.revoke(kb)
    return Response(status_code=204)
