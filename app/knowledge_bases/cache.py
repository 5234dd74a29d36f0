"""Cache of knowledge bases for searches, which validate an entry in their first statement (ADR 0014)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from cachetools import LRUCache

from app.knowledge_bases.types import KnowledgeBaseView

MAX_ENTRIES = 1000


@dataclass(frozen=True, slots=True)
class KnowledgeBaseCache:
    """Cache of recently searched knowledge bases by tenant and reference, shared by all searches of a process.

    Entries may be out of date. Callers use an entry in a transaction that fails if the knowledge base has changed.
    """

    _views: LRUCache[tuple[UUID, str], KnowledgeBaseView] = field(default_factory=lambda: LRUCache(MAX_ENTRIES))

    def get(self, tenant_id: UUID, reference: str) -> KnowledgeBaseView | None:
        """Return the cached knowledge base for a name or id, or None."""
        return self._views.get((tenant_id, reference))

    def put(self, tenant_id: UUID, reference: str, view: KnowledgeBaseView) -> None:
        """Store a knowledge base of kind documents.

        A knowledge base of kind http is not stored, because its search runs without a transaction that could validate
        it.
        """
        if view.row.source is None and (view.shared_counterpart is None or view.shared_counterpart.row.source is None):
            self._views[tenant_id, reference] = view

    def invalidate(self, tenant_id: UUID, references: Sequence[str]) -> None:
        """Remove changed or deleted knowledge bases by name or id."""
        for reference in references:
            self._views.pop((tenant_id, reference), None)
