"""Search targets: the knowledge bases of a search, with the visible scopes and the filter of each."""

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from app.documents.scopes import SHARED_SCOPE
from app.filters import compile_filter
from app.inference.embedding.model_registry import Embedders
from app.knowledge_bases.types import KnowledgeBaseView
from app.retrieval.strategies.strategy import SearchTarget
from app.retrieval.types import SearchRequest

# Filter that excludes dynamic documents, which belong to a conversation and change with it.
NOT_DYNAMIC = {"$dynamic": {"exists": False}}


def build_targets(
    views: Sequence[KnowledgeBaseView],
    scopes: Sequence[UUID],
    request: SearchRequest,
    embedders: Embedders,
    *,
    is_user_restricted: bool,
) -> list[SearchTarget]:
    """Build the targets for the knowledge bases and for the shared knowledge bases that have their names.

    Args:
        views: Knowledge bases of the search. Those of kind http get no target.
        scopes: Scopes that the caller may read. In shared knowledge bases, only the shared scope is visible.
        request: The search request.
        embedders: Configured embedding models.
        is_user_restricted: Whether the caller's key is restricted to a user.

    Returns:
        The targets: own knowledge bases, then shared ones.

    Raises:
        InvalidInputError: The filter of the request is invalid.
    """
    own = [_build_target(view, scopes, request, embedders) for view in views if view.row.source is None]
    shared_views = [
        (view.shared_counterpart, view.weight)
        for view in views
        if view.shared_counterpart is not None and view.shared_counterpart.row.source is None
    ]
    shared = [
        replace(_build_target(shared_view, SHARED_SCOPE.list_visible_keys(), request, embedders), weight=weight)
        for shared_view, weight in shared_views
    ]
    return [replace(target, is_user_restricted=is_user_restricted) for target in own + shared]


def _build_target(
    view: KnowledgeBaseView, scopes: Sequence[UUID], request: SearchRequest, embedders: Embedders
) -> SearchTarget:
    """Build a target with the caller's filter and the enforced metadata of the knowledge base."""
    own_filters = [
        condition
        for condition in (view.row.enforced_filter, NOT_DYNAMIC if request.exclude_dynamic else None)
        if condition
    ]
    enforced_filter = {"and": own_filters} if own_filters else None
    compiled = compile_filter(request.filter, loc=("body", "filter"), enforced_filter=enforced_filter)
    parts = [*([request.filter] if request.filter else []), *own_filters]
    effective_filter = {"and": parts} if len(parts) > 1 else next(iter(parts), None)
    embedder = embedders.find_by_identity(view.index.identity)
    target = SearchTarget(view, embedder, scopes, effective_filter, compiled, view.weight)
    return replace(target, score_threshold=target.search_defaults.resolve_threshold(request.score_threshold))
