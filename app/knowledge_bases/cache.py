"""Knowledge bases as they were last read, for searches that make sure of them as they begin (ADR 0014)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from cachetools import LRUCache

from app.knowledge_bases.types import KnowledgeBaseView

MAX_ENTRIES = 1000


@dataclass(frozen=True, slots=True)
class KnowledgeBaseCache:
    """The last ones that were searched, by tenant and by how they were called; one for all searches of a process.

    What is kept may be out of date. Who uses it does so in transactions that are to find it unchanged.
    """

    _views: LRUCache[tuple[UUID, str], KnowledgeBaseView] = field(default_factory=lambda: LRUCache(MAX_ENTRIES))

    def get(self, tenant_id: UUID, reference: str) -> KnowledgeBaseView | None:
        """By id or name, where it is kept."""
        return self._views.get((tenant_id, reference))

    def put(self, tenant_id: UUID, reference: str, view: KnowledgeBaseView) -> None:
        """Not what a transaction is no use for: an HTTP source is asked without one."""
        if view.row.source is None and (view.shared_counterpart is None or view.shared_counterpart.row.source is None):
            self._views[tenant_id, reference] = view

    def invalidate(self, tenant_id: UUID, references: Sequence[str]) -> None:
        """They are not as they were, or gone."""
        for reference in references:
            self._views.pop((tenant_id, reference), None)
