"""Metadata backfill of a changed metadata_filter: it reaches every document and chunk, and no read misses one during
it.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest

from app.bootstrap import TenantServices
from app.db.models.control_plane_rows import ClaimedJob
from app.db.models.tenant_data import DocumentRow
from app.documents.deletion.service import DeletionSelection
from app.documents.metadata_backfill.repository import MetadataBackfillRepository
from app.documents.metadata_backfill.service import backfill_documents
from app.documents.repository import DocumentRowFilters
from app.documents.types import DocumentFields, DocumentNotFound, ProvidedChunk, build_document_filter_metadata
from app.errors import InvalidInputError
from app.filters import compile_filter
from app.knowledge_bases.service import BACKFILL_JOB
from app.knowledge_bases.types import BackfillInProgress, NewKnowledgeBase
from app.retrieval.types import SearchRequest
from app.worker.handlers import HANDLERS, JobContext
from tests.fixtures.trees import read_tree
from tests.ingestion.workshop import Workshop

OLD: dict[str, Any] = {"department": "hr", "since": "2026-01", "public": True}
NEW: dict[str, Any] = {"department": "it", "until": "2027", "team": 1}
KB = "staff"


@dataclass(frozen=True)
class Staff:
    """A knowledge base with enforced metadata."""

    workshop: Workshop
    services: TenantServices

    async def upload(self, text: str, **facts: Any) -> DocumentRow:
        return (
            await self.services.uploads.upload_text(KB, text, DocumentFields(**facts), media_type="text/plain")
        ).document

    async def add(self, text: str, **facts: Any) -> DocumentRow:
        document = await self.upload(text, **facts)
        await self.workshop.ingest(document)
        return await self.services.documents.get(KB, document.id)

    async def add_chunks(self, *metadata: dict[str, Any]) -> DocumentRow:
        chunks = [ProvidedChunk(f"lantern {number}", one, page=number + 1) for number, one in enumerate(metadata)]
        uploaded = await self.services.uploads.upload_chunks(KB, chunks, DocumentFields())
        await self.workshop.ingest(uploaded.document)
        return await self.services.documents.get(KB, uploaded.document.id)

    async def change(self, stamp: dict[str, Any]) -> None:
        await self.services.knowledge_bases.update(KB, {"metadata_filter": stamp})

    async def backfill(self) -> None:
        await backfill_documents(self.services.retrieval.db, (await self.services.knowledge_bases.find(KB)).row.id)

    async def stamps(self) -> tuple[dict[str, Any], dict[str, Any] | None]:
        row = (await self.services.knowledge_bases.find(KB)).row
        return row.metadata_filter, row.pending_metadata_filter

    async def seen(self, expression: dict[str, Any] | None = None) -> set[UUID]:
        """Return the documents that the list and both retrievers find, after checking that all agree and each can be
        read.
        """
        found = await self.listed(expression)
        assert await self.searched(expression) == found
        for document_id in found:
            await self.services.documents.get(KB, document_id)
        return found

    async def listed(self, expression: dict[str, Any] | None) -> set[UUID]:
        compiled = compile_filter(expression)
        filters = DocumentRowFilters(contains=compiled.contains, path=compiled.path)
        _, listed = await self.services.documents.list_documents(KB, filters, after=None, limit=100)
        return {document.id for document in listed}

    async def searched(self, expression: dict[str, Any] | None) -> set[UUID]:
        """Return the documents that both retrievers find, after checking that they agree."""
        ways = []
        for strategy in ("dense", "lexical"):
            request = SearchRequest(["lantern"], knowledge_bases=[KB], strategy=strategy, top_k=100, filter=expression)
            ways.append({hit.document.id for hit in (await self.services.retrieval.search(request)).hits})
        assert ways[0] == ways[1]
        return ways[0]

    async def search_metadata_of(self, document: DocumentRow) -> list[dict[str, Any]]:
        """Return the filter metadata of a document's chunks in both search tables, without their place."""
        found = []
        for lane in ("chunk_embedding", "chunk_lexical"):
            rows = await self.workshop.owner.fetch(
                f"select c.metadata own, l.metadata - '$page' - '$node' seen from {lane} l "
                "join chunk c on (c.tenant_id, c.index_id, c.id) = (l.tenant_id, l.index_id, l.chunk_id) "
                "where c.document_id = $1",
                document.id,
            )
            found += [{name: json.loads(value) for name, value in row.items()} for row in rows]
        return found


@dataclass(frozen=True)
class Changing(Staff):
    """A knowledge base whose next enforced metadata lacks a present key."""

    new: dict[str, Any]

    async def begin(self) -> None:
        await self.change(self.new)

    async def holds(self, expected: Mapping[DocumentRow, dict[str, Any]]) -> None:
        """Check that the change is done, and that documents and chunks have their own metadata and the new enforced
        metadata.
        """
        assert await self.stamps() == (self.new, None)
        for document, own in expected.items():
            found = await self.services.documents.get(KB, document.id)
            assert found.attributes == {**own, **self.new}
            assert found.filterable == build_document_filter_metadata(found)
            for row in await self.search_metadata_of(found):
                assert row["seen"] == build_document_filter_metadata(found, row["own"])


@pytest.fixture
async def staff(workshop: Workshop) -> AsyncIterator[Staff]:
    services = await workshop.new_tenant()
    await services.knowledge_bases.create(NewKnowledgeBase(KB, metadata_filter=OLD))
    yield Staff(workshop, services)
    await workshop.end_whole()


async def test_backfill_updates_everything_as_if_always_enforced(staff: Staff) -> None:
    documents = [
        await staff.add("lantern one", metadata={"year": 2024, "d": "2025-05", "department": "x"}, title="One"),
        await staff.add("lantern two", metadata={"until": "1999", "team": ["a"]}),
        await staff.add_chunks({"team": 7, "colour": "red", "d": "2020"}, {}, {"until": "soon"}),
    ]
    await staff.change(NEW)
    await staff.backfill()
    assert await staff.stamps() == (NEW, None)
    expected: list[dict[str, Any]] = [{"year": 2024, "d": "2025-05", **NEW}, NEW, NEW]
    for document, metadata in zip(documents, expected, strict=True):
        found = await staff.services.documents.get(KB, document.id)
        assert found.attributes == metadata
        assert found.filterable == build_document_filter_metadata(found)
        for row in await staff.search_metadata_of(found):
            assert row["seen"] == build_document_filter_metadata(found, row["own"])
            assert not row["own"].keys() & NEW.keys()
    everything = {document.id for document in documents}
    for expression, number in (
        ({"department": "it"}, 3), ({"department": "hr"}, 0), ({"since": {"exists": True}}, 0), ({"team": 1}, 3),
        ({"until": {"gte": "2026-12"}}, 3), ({"since": {"gte": "2020"}}, 0), ({"team": {"not": 1}}, 0),
    ):  # fmt: skip
        assert len(await staff.seen(expression)) == number, expression
    assert await staff.seen() == everything


async def test_backfill_reads_miss_no_document(staff: Staff) -> None:
    documents = {(await staff.add(f"lantern {number}")).id for number in range(5)}
    await staff.change(NEW)
    assert await staff.stamps() == (OLD, NEW)
    db, kb_id = staff.services.retrieval.db, (await staff.services.knowledge_bases.find(KB)).row.id
    for number in range(6):
        assert await staff.seen() == documents
        assert len(await staff.seen({"department": "it"})) == number
        assert len(await staff.seen({"department": "hr"})) == 5 - min(number, 5)
        async with db.transaction() as session:
            repository = MetadataBackfillRepository(session, db.tenant_id, kb_id)
            restamp = await repository.find_pending()
            assert restamp is not None
            found = await repository.lock_batch(restamp, limit=1, max_chunks=1)
            assert len(found) == (number < 5)
            await repository.apply(restamp, found)
            assert await repository.finish(restamp) is (number > 3)
        if number > 3:
            break
    assert await staff.stamps() == (NEW, None)
    assert await staff.seen({"department": "it"}) == documents
    await staff.backfill()  # no change is waiting any more


async def test_backfill_uploads_during_change_have_new_values(staff: Staff) -> None:
    old = await staff.add("lantern old")
    before = await staff.services.knowledge_bases.find(KB)
    await staff.change(NEW)
    new = await staff.add("lantern new", metadata={"department": "x"})
    changed = await staff.services.documents.update(KB, old.id, {"metadata": {"year": 1}})
    assert (new.attributes, changed.attributes) == (NEW, {"year": 1, **NEW})
    assert await staff.seen() == {old.id, new.id}
    await staff.backfill()
    # An upload that began before the change, and a second version of a document.
    for external_id in (None, None, "e", "e"):
        uploaded = await staff.services.uploads.upload_text(
            before, f"lantern {external_id} {len(await staff.seen())}", DocumentFields(external_id=external_id),
            media_type="text/plain",
        )  # fmt: skip
        assert uploaded.document.attributes == NEW
        await staff.workshop.ingest(uploaded.document)
    assert len(await staff.seen({"department": "it"})) == 5


async def test_backfill_provided_chunks_are_indexed_without_overridden_keys(staff: Staff) -> None:
    document = await staff.add_chunks({"team": 7, "colour": "red"})
    await staff.change(NEW)
    await staff.backfill()
    await staff.workshop.ingest(await staff.services.documents.reindex(KB, document.id))
    found = await staff.services.documents.get(KB, document.id)
    rows = await staff.search_metadata_of(found)
    assert [row["own"] for row in rows] == [{"colour": "red"}] * 2
    assert [row["seen"] for row in rows] == [build_document_filter_metadata(found, {"colour": "red"})] * 2


@pytest.fixture(params=[({"a": 1, "b": 2}, {"a": 1}), ({"b": 2}, {})], ids=["less", "to nothing"])
async def changing(request: pytest.FixtureRequest, workshop: Workshop) -> AsyncIterator[Changing]:
    old, new = request.param
    services = await workshop.new_tenant()
    await services.knowledge_bases.create(NewKnowledgeBase(KB, metadata_filter=old))
    yield Changing(workshop, services, new)
    await workshop.end_whole()


async def test_backfill_uploads_during_change_preserve_own_values(changing: Changing) -> None:
    old = await changing.add("lantern old", metadata={"d": 4})
    await changing.begin()
    text = await changing.add("lantern new", metadata={"b": 2, "c": 3})
    queued = await changing.upload("lantern queued", metadata={"b": 2})
    chunks = await changing.add_chunks({"b": 2}, {"b": 3}, {})
    await changing.backfill()
    await changing.workshop.ingest(queued)
    await changing.holds({old: {"d": 4}, text: {"b": 2, "c": 3}, queued: {"b": 2}, chunks: {}})
    assert await changing.listed({"b": 2}) == {text.id, queued.id}
    assert await changing.searched({"b": 2}) == {text.id, queued.id, chunks.id}
    assert sorted(row["own"].get("b", 0) for row in await changing.search_metadata_of(chunks)) == [0, 0, 2, 2, 3, 3]
    assert await changing.searched({}) == {old.id, text.id, queued.id, chunks.id}


async def test_backfill_imports_during_change_preserve_own_values(changing: Changing) -> None:
    elsewhere = Staff(changing.workshop, await changing.workshop.new_tenant())
    await elsewhere.services.knowledge_bases.create(NewKnowledgeBase(KB))
    await elsewhere.add("lantern", metadata={"b": 2, "c": 3})
    archive = (await elsewhere.services.exports.export(KB)).iter_pieces()
    await changing.begin()
    await changing.services.imports.import_archive(await changing.services.imports.find_target(KB), archive)
    await changing.backfill()
    [imported] = await changing.seen({"b": 2})
    await changing.holds({await changing.services.documents.get(KB, imported): {"b": 2, "c": 3}})


async def test_backfill_uploads_before_change_lose_old_values_at_ingestion(changing: Changing) -> None:
    first, second = await changing.upload("lantern 1", metadata={"b": 5}), await changing.upload("lantern 2")
    ready = await changing.add("lantern 3", metadata={"b": 2})
    given = await changing.add_chunks({"b": 2, "c": 3})
    await changing.begin()
    await changing.workshop.ingest(first)
    await changing.backfill()
    await changing.workshop.ingest(second)
    await changing.backfill()  # the job is interrupted and runs again
    await changing.holds({first: {}, second: {}, ready: {}, given: {}})
    assert [row["own"] for row in await changing.search_metadata_of(given)] == [{"c": 3}] * 2
    assert await changing.searched({"b": {"exists": True}}) == set()


async def test_backfill_metadata_changes_preserve_own_values(
    changing: Changing,
) -> None:
    documents = [await changing.add(f"lantern {number}", metadata={"d": 4}) for number in range(3)]
    await changing.begin()
    for document, metadata in zip(documents, ({"b": 2}, {"b": 2, "c": 3}, {"c": 3}), strict=True):
        await changing.services.documents.update(KB, document.id, {"metadata": metadata})
    again = await changing.upload("lantern 2", metadata={"b": 2})  # the same bytes as before
    await changing.backfill()
    expected: list[dict[str, Any]] = [{"b": 2}, {"b": 2, "c": 3}, {"b": 2}]
    await changing.holds(dict(zip(documents, expected, strict=True)))
    assert again.id == documents[2].id
    assert await changing.searched({"b": 2}) == {document.id for document in documents}


async def test_backfill_title_change_does_not_adopt_old_values(changing: Changing) -> None:
    document = await changing.add("lantern", metadata={"d": 4})
    await changing.begin()
    await changing.services.documents.update(KB, document.id, {"title": "Another"})
    await changing.backfill()
    await changing.holds({document: {"d": 4}})
    assert await changing.searched({"b": 2}) == set()


async def test_backfill_replacements_preserve_own_values(changing: Changing) -> None:
    documents = [await changing.add(f"lantern {name}", external_id=name, metadata={"d": 4}) for name in "xy"]
    await changing.begin()
    versions = [await changing.upload(f"lantern 2 {name}", external_id=name, metadata={"b": 2}) for name in "xy"]
    assert [(one.id, one.version) for one in versions] == [(document.id, 2) for document in documents]
    await changing.workshop.ingest(versions[0])
    await changing.backfill()
    await changing.workshop.ingest(versions[1])
    await changing.holds({document: {"b": 2} for document in documents})
    assert await changing.searched({"b": 2}) == {document.id for document in documents}


async def test_backfill_waiting_version_leaves_live_version_visible(staff: Staff) -> None:
    document = await staff.add("lantern 1", external_id="x")
    await staff.change(NEW)
    await staff.upload("lantern 2", external_id="x")
    await staff.backfill()
    assert await staff.seen({"department": "it"}) == {document.id}


async def test_backfill_provided_chunks_follow_document_change(staff: Staff) -> None:
    document = await staff.add_chunks({"team": 7, "colour": "red"})
    await staff.change(NEW)
    await staff.services.documents.update(KB, document.id, {"metadata": {"year": 1}})
    await staff.backfill()
    assert await staff.seen({"team": 1, "year": 1}) == {document.id}
    assert [row["own"] for row in await staff.search_metadata_of(document)] == [{"colour": "red"}] * 2


async def test_backfill_upload_begun_two_changes_earlier_has_newest_values(staff: Staff) -> None:
    before = await staff.services.knowledge_bases.find(KB)
    await staff.change(NEW)
    await staff.backfill()
    await staff.change(OLD)  # the same values as at the start
    own = DocumentFields(metadata={"team": 1})
    uploaded = await staff.services.uploads.upload_text(before, "lantern", own, media_type="text/plain")
    await staff.workshop.ingest(uploaded.document)
    await staff.backfill()
    assert await staff.seen({"team": 1, **OLD}) == {uploaded.document.id}


async def test_backfill_provided_chunks_show_same_values_as_filters(workshop: Workshop) -> None:
    services = await workshop.new_tenant()
    await services.knowledge_bases.create(NewKnowledgeBase(KB))
    staff = Staff(workshop, services)
    document = await staff.add_chunks({"b": 2, "c": 3})
    await staff.change({"b": 2})
    await staff.backfill()
    await staff.change({})
    await workshop.ingest(await services.documents.reindex(KB, document.id))
    await staff.backfill()
    found = await services.documents.get(KB, document.id)
    for row in await staff.search_metadata_of(found):
        assert (row["own"], row["seen"]) == ({"c": 3}, build_document_filter_metadata(found, {"c": 3}))


async def test_backfill_document_of_older_process_is_updated(staff: Staff) -> None:
    """A process of an earlier version has completed a change without a new revision."""
    document = await staff.add("lantern")
    await staff.workshop.owner.execute("update document set metadata_revision = 1 where id = $1", document.id)
    await staff.change(NEW)
    await staff.backfill()
    assert await staff.seen({"department": "it"}) == {document.id}


@pytest.mark.parametrize(
    ("old", "new", "left"),
    [
        ({}, NEW, NEW),
        (OLD, {}, {}),
        (OLD, {"department": "hr"}, {"department": "hr"}),
        (OLD, {**OLD, "x": 0.5}, {**OLD, "x": 0.5}),
        ({"a": 1}, {"a": True}, {"a": True}),
    ],
    ids=["from nothing", "to nothing", "less", "more", "a true one"],
)
async def test_backfill_from_one_value_set_to_another(
    workshop: Workshop, old: dict[str, Any], new: dict[str, Any], left: dict[str, Any]
) -> None:
    services = await workshop.new_tenant()
    await services.knowledge_bases.create(NewKnowledgeBase(KB, metadata_filter=old))
    staff = Staff(workshop, services)
    document = await staff.add("lantern", metadata={"year": 1})
    await staff.change(new)
    assert await staff.seen() == {document.id}
    await staff.backfill()
    found = await staff.services.documents.get(KB, document.id)
    assert (found.attributes, found.filterable) == ({"year": 1, **left}, build_document_filter_metadata(found))
    assert repr(found.attributes.get("a")) == repr(left.get("a"))
    assert [row["seen"] for row in await staff.search_metadata_of(found)] == [found.filterable] * 2
    assert await staff.seen(new) == {document.id}


async def test_backfill_allows_one_change_at_a_time(staff: Staff) -> None:
    await staff.change(OLD)
    assert await staff.stamps() == (OLD, None)
    await staff.change(NEW)
    await staff.change(NEW)  # the same change again only replaces a failed job
    for other in (OLD, {}, {**NEW, "team": True}):
        with pytest.raises(BackfillInProgress):
            await staff.change(other)
    await staff.backfill()
    await staff.change(OLD)
    for wrong in ({"a": None}, {"a": [1]}, {"a": {"b": 1}}, {"a.b": 1}, {"not": 1}):
        with pytest.raises(InvalidInputError):
            await staff.change(wrong)
    assert await staff.stamps() == (NEW, OLD)


async def test_backfill_worker_runs_during_uploads(staff: Staff) -> None:
    stop = asyncio.Event()
    made: set[UUID] = set()

    async def upload(name: str) -> None:
        number = 0
        while not stop.is_set():
            number += 1
            facts = DocumentFields(external_id=f"{name} {number % 7}")
            uploaded = await staff.services.uploads.upload_text(
                KB, f"lantern {name} {number}", facts, media_type="text/plain"
            )
            made.add(uploaded.document.id)
            await staff.services.documents.wait_until_final(uploaded.document, 30)

    async with staff.workshop.working():
        uploading = [asyncio.create_task(upload(name)) for name in ("a", "b")]
        for stamp in (NEW, OLD, {}, NEW):
            await staff.change(stamp)
            async with asyncio.timeout(30):
                while (await staff.stamps())[1] is not None:
                    await asyncio.sleep(0.02)
        stop.set()
        await asyncio.gather(*uploading)
    assert {await staff.workshop.status(document_id) for document_id in made} == {"ready"}
    assert await staff.seen({"department": "it", "since": {"exists": False}}) == made
    rows = await staff.workshop.owner.fetch("select metadata from document where id = any($1)", list(made))
    assert all(json.loads(row["metadata"]) == NEW for row in rows)


async def test_document_without_enforced_metadata_is_in_no_read(staff: Staff) -> None:
    inside, outside = await staff.add("lantern in"), await staff.add("lantern out")
    owner, services = staff.workshop.owner, staff.services
    for table, key in (("document", "id"), ("chunk_embedding", "x"), ("chunk_lexical", "x")):
        column = "filterable" if table == "document" else "metadata"
        which = "id = $1" if key == "id" else "chunk_id in (select id from chunk where document_id = $1)"
        await owner.execute(
            f"""update {table} set {column} = {column} || '{{"department": "other"}}' where {which}""", outside.id
        )
    assert await staff.seen() == await staff.seen({"public": True}) == {inside.id}
    for read in (
        services.documents.get(KB, outside.id),
        services.documents.update(KB, outside.id, {"title": "x"}),
        services.documents.get_original(KB, outside.id, inline_types=()),
        services.content.list_chunks(KB, outside.id, node_id=None, after=-1, limit=10, utf16=False),
        read_tree(services.content, KB, outside.id),
        services.deletions.delete(KB, outside.id),
    ):
        with pytest.raises(DocumentNotFound):
            await read
    for selection in (DeletionSelection(ids=[outside.id]), DeletionSelection(filter={"department": "other"})):
        assert (await services.deletions.delete_many(KB, selection, confirm=None))[1] == 0
    assert (await services.deletions.delete_many(KB, DeletionSelection(filter={}), confirm=KB))[1] == 1
    assert await staff.workshop.document(outside.id) is not None


async def test_backfill_documents_with_many_chunks_run_in_small_batches(staff: Staff) -> None:
    """One statement has a limit of two minutes, and rows of a vector index are slow to update."""
    made = [(await staff.add_chunks({"number": number}, {}, {})).id for number in range(4)]
    await staff.change(NEW)
    kb = (await staff.services.knowledge_bases.find(KB)).row.id
    async with staff.services.retrieval.db.transaction() as session:
        repository = MetadataBackfillRepository(session, staff.services.principal.tenant_id, kb)
        restamp = await repository.find_pending()
        assert restamp is not None
        taken = [await repository.lock_batch(restamp, limit=3, max_chunks=chunks) for chunks in (1, 3, 4, 100)]
    assert taken == [made[:1], made[:1], made[:2], made[:3]]
    await staff.backfill()
    assert await staff.seen({"department": "it"}) == set(made)


async def test_backfill_end_does_not_deadlock_with_waiting_upload(staff: Staff) -> None:
    """The job waits for a transaction that updates the last document; then the upload waits for the job."""
    document = await staff.add("lantern one", external_id="x")
    await staff.change(NEW)
    kb = (await staff.services.knowledge_bases.find(KB)).row.id
    tenant = staff.services.principal.tenant_id
    async with staff.services.retrieval.db.transaction() as session:
        await MetadataBackfillRepository(session, tenant, kb).apply_to_document(document.id)
        job = asyncio.create_task(staff.backfill())
        await _waiting(staff, 1)
        upload = asyncio.create_task(staff.upload("lantern two", external_id="x"))
        await _waiting(staff, 2)
    assert (await upload).id == document.id
    await job
    assert await staff.stamps() == (NEW, None)


async def _waiting(staff: Staff, number: int) -> None:
    async with asyncio.timeout(30):
        while await staff.workshop.owner.fetchval("select count(*) from pg_locks where not granted") < number:
            await asyncio.sleep(0.02)


async def test_backfill_failed_job_is_started_again(staff: Staff) -> None:
    document = await staff.add("lantern")
    owner, tenant = staff.workshop.owner, staff.services.principal.tenant_id
    upkeep = JobContext(staff.workshop.resources, staff.workshop.pipeline).backfill_recovery
    await owner.execute("delete from job")
    await staff.change(NEW)
    kb = (await staff.services.knowledge_bases.find(KB)).row.id

    async def jobs() -> list[str]:
        rows = await owner.fetch("select state from job where tenant_id = $1 and kind = $2", tenant, BACKFILL_JOB)
        return sorted(row["state"] for row in rows)

    for state in ("ready", "running", "dead"):  # the job waits, runs, or has just failed
        await owner.execute("update job set state = $1, run_at = now() - interval '20 min'", state)
        await upkeep.scan()
        assert await jobs() == [state]
    await owner.execute("update job set run_at = now() - interval '31 min'")
    for _ in range(2):
        await upkeep.scan()
        assert await jobs() == ["dead", "ready"]
    await owner.execute("update job set state = 'dead', run_at = now() - interval '31 min'")
    await upkeep.scan()
    assert await jobs() == ["dead", "ready"]
    row = await owner.fetchrow("select * from job where tenant_id = $1 and state = 'ready'", tenant)
    job = ClaimedJob(tenant, row["id"], BACKFILL_JOB, None, json.loads(row["payload"]), 1, 5)
    await HANDLERS[BACKFILL_JOB](JobContext(staff.workshop.resources, staff.workshop.pipeline), job)
    assert (await staff.stamps(), await staff.seen({"department": "it"})) == ((NEW, None), {document.id})
    assert await jobs() == ["ready"]  # the job of this change; failed jobs are deleted
    await owner.execute("delete from job")
    await upkeep.scan()
    assert await jobs() == []
    await staff.change({"department": "sales"})
    await owner.execute("delete from job")
    await owner.execute("update knowledge_base set deleted_at = now() where id = $1", kb)
    await upkeep.scan()
    assert await jobs() == []
