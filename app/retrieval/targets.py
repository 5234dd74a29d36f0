"""What the lanes ask in each knowledge base of a search: the levels that are seen, and the filter."""

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from app.documents.scopes import SHARED
from app.filters import compile_filter
from app.inference.embedding.registry import Embedders
from app.knowledge_bases.types import KnowledgeBaseView
from app.retrieval.strategies.context import Target
from app.retrieval.types import SearchRequest

# How documents that belong to a conversation and change with it are known to the lanes.
NOT_DYNAMIC = {"$dynamic": {"exists": False}}


def targets_of(
    views: Sequence[KnowledgeBaseView],
    scopes: Sequence[UUID],
    request: SearchRequest,
    embedders: Embedders,
    *,
    narrowed: bool,
) -> list[Target]:
    """The knowledge bases, and the shared one of each one's name; nothing but what is shared is seen there.

    ``narrowed``: for a key that is narrowed to a user.
    """
    own = [_target(view, scopes, request, embedders) for view in views if view.row.source is None]
    twins = [(view.twin, view.scale) for view in views if view.twin is not None and view.twin.row.source is None]
    shared = [replace(_target(twin, SHARED.visible(), request, embedders), scale=scale) for twin, scale in twins]
    return [replace(target, narrowed=narrowed) for target in own + shared]


def _target(view: KnowledgeBaseView, scopes: Sequence[UUID], request: SearchRequest, embedders: Embedders) -> Target:
    """The caller's filter and the knowledge base's own, both."""
    own = [one for one in (view.row.guard, NOT_DYNAMIC if request.exclude_dynamic else None) if one]
    guard = {"and": own} if own else None
    compiled = compile_filter(request.filter, loc=("body", "filter"), guard=guard)
    parts = [*([request.filter] if request.filter else []), *own]
    understood = {"and": parts} if len(parts) > 1 else next(iter(parts), None)
    embedder = embedders.of(view.index.identity)
    return Target(view, embedder, scopes, understood, compiled, view.scale)
