"""Use cases that read entities: lists, one entity with its neighbours, and the graph of a document."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from app.db.session import Session, TenantDatabase
from app.db.statements import Record
from app.documents.lookup import find_readable_document
from app.documents.repository import DocumentRowFilters
from app.documents.scopes import SHARED_SCOPE
from app.graph.entities.corrected_keys import CorrectedKeys
from app.graph.entities.document_graph import MAX_EDGES, DocumentGraph, build_document_graph
from app.graph.entities.entity_order import EntityListing, Position, to_summary
from app.graph.entities.repository import EntityRepository, GroupSummary
from app.graph.entities.types import (
    EntityAliasName,
    EntityDetail,
    EntityNeighbour,
    EntityNotFound,
    EntityPage,
    EntityReader,
    NameCondition,
    NeighbourRelation,
)
from app.graph.extraction.names import normalize_name, split_words
from app.knowledge_bases.service import KnowledgeBaseService
from app.knowledge_bases.types import KnowledgeBaseView

MAX_NEIGHBOUR_CHUNKS = 2_000
"""Number of chunks of an entity whose entities are its neighbours."""

MAX_COMPARED_NEIGHBOURS = 200
MAX_NEIGHBOURS = 50
MAX_RELATIONS = 200


@dataclass(frozen=True, slots=True)
class EntityService:
    """Use cases that read the entities of a knowledge base."""

    db: TenantDatabase
    knowledge_bases: KnowledgeBaseService

    async def list_entities(
        self,
        reference: str,
        scope_key: UUID | None,
        *,
        prefix: str,
        words: str,
        after: Position | None,
        limit: int,
    ) -> EntityPage:
        """List the entities that readable chunks name, by normalized name.

        Args:
            reference: Name or id of the knowledge base.
            scope_key: Only chunks of this scope. The shared scope lists the shared counterpart. None reads all levels.
            prefix: Beginning of the name.
            words: Words that the name contains.
            after: Normalized name and key of the last entity of the page before.
            limit: Maximum number of entities.

        Returns:
            The entities.

        Raises:
            KnowledgeBaseNotFound: The knowledge base does not exist.
            NoDocumentStore: The knowledge base stores no documents.
        """
        condition = NameCondition(normalize_name(prefix), split_words(words))
        is_matchable = (condition.prefix or not prefix.strip()) and (condition.words or not words.strip())
        async with self.db.transaction() as session:
            kb = await self._find_knowledge_base(session, reference)
            if scope_key == SHARED_SCOPE.to_key() and kb.shared_counterpart is not None:
                kb = kb.shared_counterpart
            has_graph = kb.index.graph is not None
            if not has_graph or not is_matchable:
                return EntityPage([], has_graph)
            repository = EntityRepository(session, self.build_reader(kb, scope_key))
            corrected = await repository.load_corrected_keys()
            return EntityPage(await EntityListing(repository, corrected, condition).list_page(after, limit), has_graph)

    async def get_entity(
        self, reference: str, key: int, scope_key: UUID | None, *, after: tuple[UUID, int] | None, limit: int
    ) -> EntityDetail:
        """Return an entity with a page of its chunks and with its neighbours.

        Args:
            reference: Name or id of the knowledge base.
            key: The entity. A merged entity means the one that it was merged into.
            scope_key: Only chunks of this scope. None reads all levels.
            after: Document and index of the last chunk of the page before.
            limit: Maximum number of chunks.

        Returns:
            The entity.

        Raises:
            KnowledgeBaseNotFound: The knowledge base does not exist.
            NoDocumentStore: The knowledge base stores no documents.
            EntityNotFound: No readable chunk names the entity.
        """
        async with self.db.transaction() as session:
            own = await self._find_knowledge_base(session, reference)
            for kb in (own, own.shared_counterpart):
                if kb is None:
                    continue
                repository = EntityRepository(session, self.build_reader(kb, scope_key))
                corrected = await repository.load_corrected_keys()
                resolved = corrected.resolve(key)
                groups = await repository.summarize([resolved], corrected)
                if resolved in groups:
                    return await _load_detail(repository, corrected, resolved, groups[resolved], after, limit)
        raise EntityNotFound

    async def get_document_graph(self, reference: str, document_id: UUID) -> DocumentGraph:
        """Return the entities and edges of the live version of a document.

        Args:
            reference: Name or id of the knowledge base.
            document_id: The document.

        Returns:
            The graph, bounded.

        Raises:
            KnowledgeBaseNotFound: The knowledge base does not exist.
            DocumentNotFound: The document does not exist, or the caller may not read it.
        """
        async with self.db.transaction(snapshot=True) as session:
            kb = await self._find_knowledge_base(session, reference)
            document, kb = await find_readable_document(
                session, kb, document_id, reader=self.knowledge_bases.principal.user_id
            )
            repository = EntityRepository(session, self.build_reader(kb, None))
            version = document.live_version or 0
            mentions = await repository.list_graph_mentions(document.id, version, limit=MAX_EDGES + 1)
            relations = await repository.list_graph_relations(document.id, version, limit=MAX_EDGES + 1)
        return build_document_graph(document, mentions, relations, has_graph=kb.index.graph is not None)

    async def _find_knowledge_base(self, session: Session, reference: str) -> KnowledgeBaseView:
        kb = await self.knowledge_bases.find_in_session(session, reference)
        kb.require_documents()
        return kb

    def build_reader(self, kb: KnowledgeBaseView, scope_key: UUID | None) -> EntityReader:
        """Return the reader of an index. In a shared knowledge base, only the shared scope is visible."""
        if kb.is_shared and kb.row.tenant_id != self.db.tenant_id:
            scope_key = SHARED_SCOPE.to_key()
        filters = DocumentRowFilters(scope_key=scope_key, reader=self.knowledge_bases.principal.user_id)
        is_filtered = bool(kb.row.metadata_filter or kb.row.pending_metadata_filter)
        return EntityReader(kb.row.tenant_id, kb.row.id, kb.index.id, filters, is_filtered)


async def _load_detail(
    repository: EntityRepository,
    corrected: CorrectedKeys,
    key: int,
    group: GroupSummary,
    after: tuple[UUID, int] | None,
    limit: int,
) -> EntityDetail:
    raw_keys = corrected.list_raw_keys(key)
    shared = await repository.find_neighbours(
        key, raw_keys, max_chunks=MAX_NEIGHBOUR_CHUNKS, limit=MAX_COMPARED_NEIGHBOURS
    )
    relations = _group_relations(key, await repository.list_relations(key, raw_keys, limit=MAX_RELATIONS))
    entity = to_summary(key, group)
    others = list(dict.fromkeys([*shared.counts, *relations]))
    groups = await repository.summarize(others, corrected) if others else {}
    neighbours = [
        EntityNeighbour(
            to_summary(other, groups[other]),
            shared.counts.get(other, 0),
            _compute_weight(shared.counts.get(other, 0), group.total.chunks, groups[other].total.chunks),
            relations.get(other, ()),
        )
        for other in others
        if other in groups
    ]
    neighbours.sort(key=lambda item: (-item.weight, item.entity.sort_name, item.entity.key))
    return EntityDetail(
        entity,
        [EntityAliasName(member, summary.name) for member, summary in sorted(group.members.items()) if member != key],
        await repository.list_chunks(key, raw_keys, after=after, limit=limit),
        shared.degree,
        neighbours[:MAX_NEIGHBOURS],
        is_truncated=shared.read_chunks >= MAX_NEIGHBOUR_CHUNKS and group.total.chunks > shared.read_chunks,
    )


def _compute_weight(shared: int, chunks: int, other_chunks: int) -> float:
    """Return the cosine of two entities over their chunks (Ochiai coefficient)."""
    return round(shared / math.sqrt(max(1, chunks * other_chunks)), 6)


def _group_relations(key: int, rows: Iterable[Record]) -> Mapping[int, Sequence[NeighbourRelation]]:
    relations: dict[int, list[NeighbourRelation]] = defaultdict(list)
    for row in rows:
        is_subject = row["subject_key"] == key
        other = row["object_key"] if is_subject else row["subject_key"]
        relations[other].append(NeighbourRelation(row["predicate"], is_subject, row["chunks"]))
    return relations
