"""Another metadata_filter: it goes to every document and chunk, and no read misses one on the way."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest

from app.bootstrap import TenantServices
from app.db.models.tenant_data import Document
from app.documents.deletion import Selection
from app.documents.repository import DocumentFilters
from app.documents.restamp_repository import RestampRepository
from app.documents.restamping import restamp_documents
from app.documents.types import DocumentFacts, DocumentNotFound, GivenChunk, filterable
from app.errors import InvalidInput
from app.filters import compile_filter
from app.knowledge_bases.types import NewKnowledgeBase, StampUnderWay
from app.retrieval.types import SearchRequest
from tests.ingestion.workshop import Workshop

OLD: dict[str, Any] = {"department": "hr", "since": "2026-01", "public": True}
NEW: dict[str, Any] = {"department": "it", "until": "2027", "team": 1}
KB = "staff"


@dataclass(frozen=True)
class Staff:
    """A knowledge base with a stamp."""

    workshop: Workshop
    services: TenantServices

    async def add(self, text: str, **facts: Any) -> Document:
        uploaded = await self.services.uploads.upload_text(KB, text, DocumentFacts(**facts), media_type="text/plain")
        await self.workshop.ingest(uploaded.document)
        return await self.services.documents.get(KB, uploaded.document.id)

    async def add_chunks(self, *metadata: dict[str, Any]) -> Document:
        chunks = [GivenChunk(f"lantern {number}", one, page=number + 1) for number, one in enumerate(metadata)]
        uploaded = await self.services.uploads.upload_chunks(KB, chunks, DocumentFacts())
        await self.workshop.ingest(uploaded.document)
        return await self.services.documents.get(KB, uploaded.document.id)

    async def change(self, stamp: dict[str, Any]) -> None:
        await self.services.knowledge_bases.update(KB, {"metadata_filter": stamp})

    async def restamp(self) -> None:
        await restamp_documents(self.services.retrieval.db, (await self.services.knowledge_bases.find(KB)).row.id)

    async def stamps(self) -> tuple[dict[str, Any], dict[str, Any] | None]:
        row = (await self.services.knowledge_bases.find(KB)).row
        return row.metadata_filter, row.pending_filter

    async def seen(self, expression: dict[str, Any] | None = None) -> set[UUID]:
        """What the list and both lanes agree on; each of them can be read by itself."""
        compiled = compile_filter(expression)
        filters = DocumentFilters(contains=compiled.contains, path=compiled.path)
        _, listed = await self.services.documents.page(KB, filters, after=None, limit=100)
        ways = [{document.id for document in listed}]
        for strategy in ("simple", "lexical"):
            request = SearchRequest(["lantern"], knowledge_bases=[KB], strategy=strategy, top_k=100, filter=expression)
            ways.append({hit.document.id for hit in (await self.services.retrieval.search(request)).hits})
        assert ways[0] == ways[1] == ways[2]
        for document_id in ways[0]:
            await self.services.documents.get(KB, document_id)
        return ways[0]

    async def lanes_of(self, document: Document) -> list[dict[str, Any]]:
        """What filters see of its chunks, without their place, from both lanes."""
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


@pytest.fixture
async def staff(workshop: Workshop) -> AsyncIterator[Staff]:
    services = await workshop.new_tenant()
    await services.knowledge_bases.create(NewKnowledgeBase(KB, metadata_filter=OLD))
    yield Staff(workshop, services)
    await workshop.drop_jobs()
    assert await workshop.inconsistencies() == {}


async def test_everything_gets_the_new_stamp_and_what_filters_see_is_as_if_it_had_always_been(staff: Staff) -> None:
    documents = [
        await staff.add("lantern one", metadata={"year": 2024, "d": "2025-05", "department": "x"}, title="One"),
        await staff.add("lantern two", metadata={"until": "1999", "team": ["a"]}),
        await staff.add_chunks({"team": 7, "colour": "red", "d": "2020"}, {}, {"until": "soon"}),
    ]
    await staff.change(NEW)
    await staff.restamp()
    assert await staff.stamps() == (NEW, None)
    expected: list[dict[str, Any]] = [{"year": 2024, "d": "2025-05", **NEW}, NEW, NEW]
    for document, metadata in zip(documents, expected, strict=True):
        found = await staff.services.documents.get(KB, document.id)
        assert found.attributes == metadata
        assert found.filterable == filterable(found)
        for row in await staff.lanes_of(found):
            assert row["seen"] == filterable(found, row["own"])
            assert not row["own"].keys() & NEW.keys()
    everything = {document.id for document in documents}
    for expression, number in (
        ({"department": "it"}, 3), ({"department": "hr"}, 0), ({"since": {"exists": True}}, 0), ({"team": 1}, 3),
        ({"until": {"gte": "2026-12"}}, 3), ({"since": {"gte": "2020"}}, 0), ({"team": {"not": 1}}, 0),
    ):  # fmt: skip
        assert len(await staff.seen(expression)) == number, expression
    assert await staff.seen() == everything


async def test_no_read_misses_a_document_on_the_way(staff: Staff) -> None:
    documents = {(await staff.add(f"lantern {number}")).id for number in range(5)}
    await staff.change(NEW)
    assert await staff.stamps() == (OLD, NEW)
    db, kb_id = staff.services.retrieval.db, (await staff.services.knowledge_bases.find(KB)).row.id
    for number in range(6):
        assert await staff.seen() == documents
        assert len(await staff.seen({"department": "it"})) == number
        assert len(await staff.seen({"department": "hr"})) == 5 - min(number, 5)
        async with db.transaction() as session:
            repository = RestampRepository(session, db.tenant_id, kb_id)
            restamp = await repository.wanted()
            assert restamp is not None
            found = await repository.take(restamp, limit=1)
            assert len(found) == (number < 5)
            await repository.stamp(restamp, found)
            assert await repository.finish(restamp) is (number > 3)
        if number > 3:
            break
    assert await staff.stamps() == (NEW, None)
    assert await staff.seen({"department": "it"}) == documents
    await staff.restamp()  # nothing is wanted any more


async def test_what_comes_in_on_the_way_has_the_new_stamp(staff: Staff) -> None:
    old = await staff.add("lantern old")
    before = await staff.services.knowledge_bases.find(KB)
    await staff.change(NEW)
    new = await staff.add("lantern new", metadata={"department": "x"})
    changed = await staff.services.documents.update(KB, old.id, {"metadata": {"year": 1}})
    assert (new.attributes, changed.attributes) == (NEW, {"year": 1, **NEW})
    assert await staff.seen() == {old.id, new.id}
    await staff.restamp()
    # An upload that began when the old stamp was in force, and another version of a document.
    for external_id in (None, None, "e", "e"):
        uploaded = await staff.services.uploads.upload_text(
            before, f"lantern {external_id} {len(await staff.seen())}", DocumentFacts(external_id=external_id),
            media_type="text/plain",
        )  # fmt: skip
        assert uploaded.document.attributes == NEW
        await staff.workshop.ingest(uploaded.document)
    assert len(await staff.seen({"department": "it"})) == 5


async def test_chunks_that_were_given_are_indexed_again_without_what_is_stamped_now(staff: Staff) -> None:
    document = await staff.add_chunks({"team": 7, "colour": "red"})
    await staff.change(NEW)
    await staff.restamp()
    await staff.workshop.ingest(await staff.services.documents.reindex(KB, document.id))
    found = await staff.services.documents.get(KB, document.id)
    rows = await staff.lanes_of(found)
    assert [row["own"] for row in rows] == [{"colour": "red"}] * 2
    assert [row["seen"] for row in rows] == [filterable(found, {"colour": "red"})] * 2


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
async def test_from_stamp_to_stamp(
    workshop: Workshop, old: dict[str, Any], new: dict[str, Any], left: dict[str, Any]
) -> None:
    services = await workshop.new_tenant()
    await services.knowledge_bases.create(NewKnowledgeBase(KB, metadata_filter=old))
    staff = Staff(workshop, services)
    document = await staff.add("lantern", metadata={"year": 1})
    await staff.change(new)
    assert await staff.seen() == {document.id}
    await staff.restamp()
    found = await staff.services.documents.get(KB, document.id)
    assert (found.attributes, found.filterable) == ({"year": 1, **left}, filterable(found))
    assert repr(found.attributes.get("a")) == repr(left.get("a"))
    assert [row["seen"] for row in await staff.lanes_of(found)] == [found.filterable] * 2
    assert await staff.seen(new) == {document.id}


async def test_one_change_at_a_time(staff: Staff) -> None:
    await staff.change(OLD)
    assert await staff.stamps() == (OLD, None)
    await staff.change(NEW)
    await staff.change(NEW)  # once more is no other: it brings back a job that was given up
    for other in (OLD, {}, {**NEW, "team": True}):
        with pytest.raises(StampUnderWay):
            await staff.change(other)
    await staff.restamp()
    await staff.change(OLD)
    for wrong in ({"a": None}, {"a": [1]}, {"a": {"b": 1}}, {"a.b": 1}, {"not": 1}):
        with pytest.raises(InvalidInput):
            await staff.change(wrong)
    assert await staff.stamps() == (NEW, OLD)


async def test_the_worker_does_it_while_uploads_go_on(staff: Staff) -> None:
    stop = asyncio.Event()
    made: set[UUID] = set()

    async def upload(name: str) -> None:
        number = 0
        while not stop.is_set():
            number += 1
            facts = DocumentFacts(external_id=f"{name} {number % 7}")
            uploaded = await staff.services.uploads.upload_text(
                KB, f"lantern {name} {number}", facts, media_type="text/plain"
            )
            made.add(uploaded.document.id)
            await staff.services.documents.wait(uploaded.document, 30)

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


async def test_what_has_no_stamp_is_out_of_every_read(staff: Staff) -> None:
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
        services.documents.original(KB, outside.id, inline=()),
        services.reading.chunks(KB, outside.id, below=None, after=-1, limit=10, utf16=False),
        services.reading.tree(KB, outside.id, utf16=False),
        services.deletions.delete(KB, outside.id),
    ):
        with pytest.raises(DocumentNotFound):
            await read
    for selection in (Selection(ids=[outside.id]), Selection(filter={"department": "other"})):
        assert (await services.deletions.delete_many(KB, selection, confirm=None))[1] == 0
    assert (await services.deletions.delete_many(KB, Selection(filter={}), confirm=KB))[1] == 1
    assert await staff.workshop.document(outside.id) is not None
