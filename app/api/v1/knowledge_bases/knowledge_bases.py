"""Knowledge bases: create, list, read, update, delete."""

from dataclasses import asdict
from functools import partial
from typing import Any

from fastapi import APIRouter, Response

from app.api.dependencies import (
    AuthenticatedRoute,
    CurrentAdmin,
    CurrentPageParams,
    CurrentReader,
    CurrentResources,
    encode_cursor,
)
from app.api.http.etags import CurrentPrecondition
from app.api.http.path_parameters import KnowledgeBasePath
from app.api.v1.deletion_header import create_deletion_response, describe_deletion_header
from app.api.v1.knowledge_bases.graph_settings import to_graph_settings_out
from app.api.v1.knowledge_bases.knowledge_base_schemas import (
    KnowledgeBaseCreate,
    KnowledgeBaseList,
    KnowledgeBaseOut,
    KnowledgeBaseUpdate,
)
from app.api.v1.knowledge_bases.reindex_status import (
    get_rollback_deadline,
    to_reindex_out,
)
from app.bootstrap import Resources
from app.errors import ForbiddenError, InvalidInputError
from app.ids import encode_id
from app.index_maintenance.types import VectorIndexSkipReason
from app.knowledge_bases.types import KnowledgeBaseView, NewKnowledgeBase

router = APIRouter(prefix="/knowledge-bases", tags=["knowledge bases"], route_class=AuthenticatedRoute)


def to_knowledge_base_out(view: KnowledgeBaseView, resources: Resources) -> dict[str, Any]:
    """Return the fields of a knowledge base for the response.

    Args:
        view: Knowledge base with its search index and counts.
        resources: Resources of the process, for the configured models.
    """
    row, identity = view.row, view.index.identity
    extractor_versions = resources.index_settings.extractor_versions
    reindex_reason = (
        None if row.source else view.find_reindex_reason(resources.embedders.identities, extractor_versions)
    )
    return {
        "id": encode_id("kb", row.id),
        "name": row.name,
        "kind": view.kind,
        "source": row.source,
        "title": row.title or row.name,
        "description": row.description,
        "language": row.language,
        "embedding": {"model": identity["model"], "dimensions": view.index.dim},
        "chunking": row.chunking,
        "retrieval": row.retrieval,
        "routing": asdict(view.routing),
        "graph": to_graph_settings_out(view.graph),
        "metadata_filter": row.metadata_filter,
        "pending_metadata_filter": row.pending_metadata_filter,
        "enrichment": view.enrichment.to_stored(),
        "index": {
            "state": view.index.vector_index,
            "reason": None
            if view.index.skip_reason is None
            else VectorIndexSkipReason(view.index.skip_reason).sentence,
            "size_bytes": view.index.index_bytes,
            "recall": None if view.index.recall is None else round(view.index.recall, 3),
            "average_length": view.index.avgdl,
            "analyzer": identity.get("analyzer", ""),
            "action": None if reindex_reason is None else "reindex",
            "problem": reindex_reason,
        },
        "reindex": None if view.reindex_progress is None else to_reindex_out(view.reindex_progress),
        "rollback_until": get_rollback_deadline(view, resources),
        "document_count": view.document_count,
        "chunk_count": view.chunk_count,
        "created_at": row.created_at,
        "updated_at": row.updated_at,
    }


@router.post("", summary="Create a knowledge base", status_code=201, response_model=KnowledgeBaseOut)
async def create_knowledge_base(
    body: KnowledgeBaseCreate, tenant: CurrentAdmin, resources: CurrentResources
) -> dict[str, Any]:
    """Create a knowledge base. A key that is restricted to knowledge bases cannot create one."""
    if tenant.principal.knowledge_base_ids is not None:
        raise ForbiddenError(
            "A key that is restricted to knowledge bases cannot create others. Use an unrestricted key."
        )
    new = NewKnowledgeBase(
        name=body.name,
        title=body.title,
        description=body.description,
        language=body.language,
        model=body.embedding.model,
        dimensions=body.embedding.dimensions,
        chunking=body.chunking.to_chunking(),
        retrieval=body.retrieval.to_retrieval(),
        routing=body.routing.to_routing_settings(),
        graph=body.graph.to_graph_settings(),
        metadata_filter=body.metadata_filter,
        source=None if body.source is None else body.source.to_source(),
        enrichment=body.enrichment.to_settings(),
    )
    return to_knowledge_base_out(await tenant.knowledge_bases.create(new), resources)


@router.get("", summary="List knowledge bases", response_model=KnowledgeBaseList)
async def list_knowledge_bases(
    page: CurrentPageParams, tenant: CurrentReader, resources: CurrentResources
) -> dict[str, Any]:
    """Return the knowledge bases that the key may see, newest first."""
    views = await tenant.knowledge_bases.list_knowledge_bases(after=page.parse_cursor(), limit=page.row_limit)
    items = views[: page.limit]
    cursor = encode_cursor(items[-1].row.created_at, items[-1].row.id) if views[page.limit :] else None
    return page.build_reply([to_knowledge_base_out(view, resources) for view in items], cursor)


@router.get("/{kb}", summary="Get a knowledge base", response_model=KnowledgeBaseOut)
async def get_knowledge_base(
    kb: KnowledgeBasePath, tenant: CurrentReader, resources: CurrentResources
) -> dict[str, Any]:
    """Return a knowledge base, by id or name."""
    return to_knowledge_base_out(await tenant.knowledge_bases.find_with_counts(kb), resources)


@router.patch(
    "/{kb}",
    summary="Update a knowledge base",
    response_model=KnowledgeBaseOut,
)
async def update_knowledge_base(
    kb: KnowledgeBasePath,
    body: KnowledgeBaseUpdate,
    tenant: CurrentAdmin,
    resources: CurrentResources,
    precondition: CurrentPrecondition,
) -> dict[str, Any]:
    """Change titles, settings of searches, routing, the graph or enrichment, enforced metadata or source of a knowledge
    base.

    Fields that `retrieval` leaves out keep their values, and null sets the default; a strategy and its options change
    together. `routing`, `graph`, `enrichment` and `source` are replaced as a whole: a field left out gets its default.

    New enforced metadata is applied to all documents in the background; until then, searches also filter by
    the former enforced metadata.
    """
    changes = body.model_dump(exclude_unset=True)
    for name in ("retrieval", "routing", "graph", "metadata_filter", "source", "enrichment"):
        if changes.get(name, ...) is None:
            raise InvalidInputError(f"{name} cannot be null.", loc=("body", name))
    if body.retrieval is not None:
        changes["retrieval"] = body.retrieval.to_changes()
    if body.source is not None:
        changes["source"] = asdict(body.source.to_source())
    if body.enrichment is not None:
        changes["enrichment"] = body.enrichment.to_settings().to_stored()
    if body.graph is not None:
        changes["graph"] = body.graph.to_graph_settings().to_stored()
    if body.routing is not None:
        changes["routing"] = body.routing.to_routing_settings()
    check = precondition.build_check(KnowledgeBaseOut, partial(to_knowledge_base_out, resources=resources))
    return to_knowledge_base_out(await tenant.knowledge_bases.update(kb, changes, check=check), resources)


@router.delete(
    "/{kb}",
    summary="Delete a knowledge base",
    status_code=204,
    responses=describe_deletion_header(204, "The knowledge base is deleted"),
)
async def delete_knowledge_base(kb: KnowledgeBasePath, tenant: CurrentAdmin) -> Response:
    """Delete a knowledge base. It disappears from searches at once, its name can be used again, and its contents are
    removed in the background.

    The header `Carrel-Deletion-Id` names the receipt.
    """
    return create_deletion_response(204, await tenant.knowledge_bases.delete(kb))
