"""A knowledge base as a view in the database, for an agent platform that reads a pgvector table itself."""

from typing import Any, Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from app.api.dependencies import CurrentAdmin, GuardedRoute
from app.api.problems import PROBLEM
from app.api.v1.schemas import Input, Time
from app.ids import encode_id
from app.publications.types import COLLECTION, CONTENT_KEY, PublicationView

router = APIRouter(prefix="/knowledge-bases/{kb}/publication", tags=["publications"], route_class=GuardedRoute)


class PublicationIn(Input):
    """What the platform is to find; without a ``collection`` the view has the knowledge base's name."""

    collection: str | None = Field(None, pattern=COLLECTION, description="The view's name; not `pg_…`")
    content_key: str = Field("content", pattern=CONTENT_KEY, description="Where the text stands in `metadata`")


class ManifestOut(BaseModel):
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


class PublicationWarningOut(BaseModel):
    """What the platform's operator has to know: `embedded_model`, `query_prefix` or `no_tls`."""

    code: str
    message: str


class PublicationOut(BaseModel):
    """``preparing`` until a job has made the view; ``held_back`` says why none does."""

    id: str
    state: Literal["preparing", "ready"]
    held_back: str | None = Field(description="`no_owner`: the workers have no CARREL_ADMIN_DATABASE_URL")
    manifest: ManifestOut
    warnings: list[PublicationWarningOut]
    created_at: Time


class NewPublicationOut(PublicationOut):
    """With the password, which is told this once."""

    password: str


def _out(view: PublicationView) -> dict[str, Any]:
    stored = view.stored
    return {
        "id": encode_id("pub", stored.id),
        "state": "ready" if stored.is_shown else "preparing",
        "held_back": stored.held_back,
        "manifest": view.manifest,
        "warnings": [{"code": one.code, "message": one.message} for one in view.warnings],
        "created_at": stored.created_at,
    }


@router.post(
    "",
    status_code=202,
    response_model=NewPublicationOut,
    responses={409: {"description": "Published already, not allowed here, or of kind http", **PROBLEM}},
)
async def publish_knowledge_base(kb: str, tenant: CurrentAdmin, body: PublicationIn | None = None) -> dict[str, Any]:
    """Make a read-only view with `id`, `vec` and `metadata`, and a database role that sees it and nothing else.

    The view shows the live index's chunks of the documents of the tenant's level; those of users, chats and the shared
    level, dynamic and expired ones are never in it.
    """
    body = body or PublicationIn()
    view, password = await tenant.publications.create(kb, collection=body.collection, content_key=body.content_key)
    return {**_out(view), "password": password}


@router.get("", response_model=PublicationOut)
async def read_publication(kb: str, tenant: CurrentAdmin) -> dict[str, Any]:
    """How it is published, without the password."""
    return _out(await tenant.publications.get(kb))


@router.delete("", status_code=204)
async def revoke_publication(kb: str, tenant: CurrentAdmin) -> Response:
    """The view shows nothing from now on; a job ends its sessions and drops view, schema and role."""
    await tenant.publications.revoke(kb)
    return Response(status_code=204)
