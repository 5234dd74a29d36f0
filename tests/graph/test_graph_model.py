"""Random changes of documents and search indexes: the graph equals one that is built from the same documents again."""

import random
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pytest

from app.bootstrap import TenantServices
from app.cleanup.sweeper import EXPIRED_JOB
from app.documents.deletion.service import DeletionSelection
from app.documents.provided_graph import ProvidedEntity, ProvidedGraph, ProvidedRelation
from app.documents.scopes import DocumentScope
from app.documents.types import DocumentFields, ProvidedChunk
from app.knowledge_bases.reindex_service import REINDEX_JOB
from app.knowledge_bases.types import Chunking, NewKnowledgeBase, ReindexOptions
from app.worker.handlers import JobContext
from tests.graph.graph_rows import read_graph
from tests.ingestion.workshop import Workshop

KB = "default"
STEPS = 40
NAMES = ["Anna Smith", "Bob Jones", "Harbour Authority", "Port Elms", "Mira Vale", "F-16", "max_size", "Lantern Works"]
PREDICATES = ["works for", "lives in"]
CHUNKINGS = (Chunking("headered", 24, 0), Chunking("headered", 48, 0))
HIGHER = {
    DocumentScope(None, "c", "a"): DocumentScope(None, "c"),
    DocumentScope(None, "c"): DocumentScope("u"),
    DocumentScope("u"): DocumentScope(),
    DocumentScope("v"): DocumentScope(),
}
SCOPES = (DocumentScope(), *HIGHER)
ACTIONS = {
    "upload": 12, "replace": 4, "retitle": 2, "delete": 2, "promote": 5, "expire": 2, "reindex": 2, "rollback": 2,
    "maintain": 2,
}  # fmt: skip


@dataclass(frozen=True)
class ModelDocument:
    """A document that the knowledge base has: the fields and content of its last upload, and its scope."""

    external_id: str
    title: str | None
    content: str | tuple[ProvidedChunk, ...]
    scope: DocumentScope
    metadata: dict[str, Any]


@dataclass
class GraphModel:
    """A knowledge base that changes by random actions, and the documents that it has."""

    workshop: Workshop
    services: TenantServices
    rng: random.Random
    documents: dict[UUID, ModelDocument] = field(default_factory=dict)
    counter: int = 0
    has_former_index: bool = False

    async def act(self, action: str) -> None:
        """Run an action. Actions on documents choose one at random."""
        if action in ("upload", "reindex", "rollback", "maintain"):
            await getattr(self, action)()
        elif self.documents:
            await getattr(self, action)(self.rng.choice(list(self.documents)))

    async def upload(self) -> None:
        self.counter += 1
        await self.put(self.compose(f"d{self.counter}", self.rng.choice(SCOPES)))

    async def replace(self, document_id: UUID) -> None:
        old = self.documents[document_id]
        await self.put(self.compose(old.external_id, old.scope))

    async def put(self, document: ModelDocument) -> None:
        self.documents[await store(self.workshop, self.services, KB, document)] = document

    async def retitle(self, document_id: UUID) -> None:
        old = self.documents[document_id]
        title = f"{self.rng.choice(NAMES)} and the {self.counter}th Tide"
        await self.services.documents.update(KB, document_id, {"title": title})
        await self.workshop.run_jobs("ingest_document")
        self.documents[document_id] = ModelDocument(old.external_id, title, old.content, old.scope, old.metadata)

    async def delete(self, document_id: UUID) -> None:
        await self.services.deletions.delete(KB, document_id)
        del self.documents[document_id]

    async def promote(self, document_id: UUID) -> None:
        old = self.documents[document_id]
        if old.scope not in HIGHER:
            return
        scope = HIGHER[old.scope]
        await self.services.documents.update(KB, document_id, {"scope": scope})
        self.documents[document_id] = ModelDocument(old.external_id, old.title, old.content, scope, old.metadata)

    async def expire(self, document_id: UUID) -> None:
        await self.workshop.owner.execute("update document set expires_at = now() where id = $1", document_id)
        await self.context.sweeper.run_job(EXPIRED_JOB)
        del self.documents[document_id]

    async def reindex(self) -> None:
        await self.services.reindexing.start(KB, ReindexOptions(chunking=self.rng.choice(CHUNKINGS)))
        await self.workshop.run_jobs(REINDEX_JOB)
        self.has_former_index = True

    async def rollback(self) -> None:
        if self.has_former_index:
            await self.services.reindexing.rollback(KB)
            await self.workshop.run_jobs(REINDEX_JOB)

    async def maintain(self) -> None:
        index = (await self.services.knowledge_bases.find(KB)).index.id
        await self.crowd(index)
        await self.workshop.maintenance.maintain(self.services.principal.tenant_id, index)

    async def crowd(self, index: UUID) -> None:
        """Insert changes that cancel out, so that the maintenance merges the changes."""
        for table, columns in (("entity", "key, sign, 0, name"), ("private_entity_frequency", "scope_key, key, sign")):
            await self.workshop.owner.execute(
                f"insert into {table} select tenant_id, index_id, {columns}"
                f"  from (select * from {table} where index_id = $1 limit 10) x, (values (1), (-1)) s(sign),"
                "        generate_series(1, 150)",
                index,
            )

    @property
    def context(self) -> JobContext:
        return JobContext(self.workshop.resources, self.workshop.pipeline)

    def compose(self, external_id: str, scope: DocumentScope) -> ModelDocument:
        """Return a document with random names, sometimes with provided chunks that have entities and relations."""
        rng = self.rng
        title = rng.choice([None, "The Sea Wall", *NAMES[:3]])
        metadata = {"n": rng.randint(0, 5)}
        if rng.random() < 0.4:
            chunks = tuple(self.compose_chunk() for _ in range(rng.randint(1, 4)))
            return ModelDocument(external_id, title, chunks, scope, metadata)
        sections = [f"# {rng.choice(NAMES)}\n\n{self.compose_sentences()}" for _ in range(rng.randint(1, 3))]
        return ModelDocument(external_id, title, "\n\n".join(sections), scope, metadata)

    def compose_chunk(self) -> ProvidedChunk:
        rng = self.rng
        entities = tuple(ProvidedEntity(name, rng.choice([None, "person"]), 2) for name in rng.sample(NAMES, 2))
        relations = tuple(
            ProvidedRelation(subject, rng.choice(PREDICATES), other)
            for subject, other in (rng.sample(NAMES, 2) for _ in range(rng.randint(1, 2)))
        )
        return ProvidedChunk(self.compose_sentences(), graph=ProvidedGraph(entities, relations))

    def compose_sentences(self) -> str:
        self.counter += 1
        names = self.rng.choices(NAMES, k=self.rng.randint(0, 6))
        return " ".join([f"Note {self.counter} is here.", *(f"Then we saw {name} by the sea." for name in names)])


async def store(workshop: Workshop, services: TenantServices, kb: str, document: ModelDocument) -> UUID:
    """Upload and ingest a document, and return its id."""
    fields = DocumentFields(
        external_id=document.external_id, title=document.title, scope=document.scope, metadata=document.metadata
    )
    if isinstance(document.content, str):
        uploaded = await services.uploads.upload_text(kb, document.content, fields, media_type="text/markdown")
    else:
        uploaded = await services.uploads.upload_chunks(kb, document.content, fields)
    await workshop.ingest(uploaded.document)
    assert await workshop.status(uploaded.document.id) == "ready"
    return uploaded.document.id


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_graph_after_random_changes_equals_graph_built_again(workshop: Workshop, seed: int) -> None:
    services = await workshop.new_tenant()
    model = GraphModel(workshop, services, random.Random(seed))
    random_actions = model.rng.choices(list(ACTIONS), list(ACTIONS.values()), k=STEPS)
    # Every action happens at least once.
    for action in ("upload", "upload", *random_actions, "upload", *ACTIONS):
        await model.act(action)
    await model.put(ModelDocument("given", None, (model.compose_chunk(),), DocumentScope("u"), {}))
    assert await workshop.inconsistencies() == {}
    await assert_graph_is_built_again(model)
    await assert_receipt_counts_nothing(model)


async def assert_graph_is_built_again(model: GraphModel) -> None:
    """Build the documents in a new knowledge base, and compare the rows of both graphs."""
    services, workshop, tenant = model.services, model.workshop, model.services.principal.tenant_id
    changed = await services.knowledge_bases.find(KB)
    built = await services.knowledge_bases.create(
        NewKnowledgeBase("built again", language=changed.row.language, chunking=changed.chunking)
    )
    for document in model.documents.values():
        await store(workshop, services, "built again", document)
    actual = await read_graph(workshop.owner, tenant, KB, changed.row.id)
    expected = await read_graph(workshop.owner, tenant, "built again", built.row.id)
    assert all(expected.values()), "the documents have rows in every table"
    for table, rows in expected.items():
        assert actual[table] == rows, table


async def assert_receipt_counts_nothing(model: GraphModel) -> None:
    """Delete all documents. The receipt counts no rows, and no table of the graph names an entity."""
    services, workshop = model.services, model.workshop
    deletion, _ = await services.deletions.delete_many(KB, DeletionSelection(filter={}), confirm=KB)
    await workshop.run_jobs("purge_objects")
    receipt = await services.deletions.get_receipt(deletion)
    assert receipt.finished_at is not None
    assert receipt.remaining is not None
    assert not any(receipt.remaining.values())
