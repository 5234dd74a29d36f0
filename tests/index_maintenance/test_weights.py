"""Document frequencies and weights stay right during concurrent writes and maintenance; BM25 compared with bm25s."""

import asyncio
import random
from contextlib import suppress
from typing import Any
from uuid import UUID

from sqlalchemy.exc import DBAPIError

from app.db.statements import Statement
from app.index_maintenance.repository import MERGE_FREQUENCIES
from app.index_maintenance.types import IndexBusy
from app.knowledge_bases.service import PURGE_KNOWLEDGE_BASE_JOB
from harness.consistency import MAX_WEIGHTS_SQL
from tests.index_maintenance.indexed_knowledge_base import ANALYZER, IndexedKnowledgeBase
from tests.ingestion.workshop import Workshop, add_text, until

WORDS = [f"{first}{second}" for first in ("bar", "kel", "mon", "tur", "vis") for second in ("dok", "lam", "rin", "sep")]
QUERIES = (WORDS[0], f"{WORDS[3]} {WORDS[9]}", " ".join(WORDS[5:12]))
WEIGHTS = [1 / rank for rank in range(1, len(WORDS) + 1)]


def some_text(rng: random.Random, *, longest: int) -> str:
    return " ".join(rng.choices(WORDS, WEIGHTS, k=rng.randint(2, longest)))


async def test_concurrent_writers_and_maintenance_leave_exact_weights(library: IndexedKnowledgeBase) -> None:
    """Four writers insert, replace and delete at random, while maintenance folds and recomputes the weights
    repeatedly.
    """

    async def write(writer: int) -> None:
        rng, mine = random.Random(writer), dict[str, UUID]()
        for number in range(14):
            name = f"{writer} {rng.randrange(6)}"
            if name in mine and rng.random() < 0.4:
                await library.delete(mine.pop(name))
            else:
                mine[name] = (await library.put(name, some_text(rng, longest=10 + 4 * number))).id

    async def maintain(ended: asyncio.Event, *, crowding: bool) -> int:
        rounds = 0
        while not ended.is_set():
            if crowding and rounds % 5 == 0:
                await library.crowd()
            with suppress(DBAPIError, IndexBusy):  # a deadlock with writers aborts the maintenance
                await library.workshop.maintenance.maintain(library.tenant, library.index)
            rounds += 1
        return rounds

    ended = asyncio.Event()
    maintaining = [asyncio.create_task(maintain(ended, crowding=crowding)) for crowding in (True, False)]
    await asyncio.gather(*(write(writer) for writer in range(4)))
    ended.set()
    assert min(await asyncio.gather(*maintaining)) > 3
    assert await library.workshop.inconsistencies() == {}
    assert await library.avgdl() != 100
    await library.assert_exact(QUERIES, avgdl=await library.avgdl())
    # The drift is large enough now; after it the scores are plain BM25.
    for number in range(3):
        await library.put(f"long {number}", some_text(random.Random(number), longest=10) + " winding" * 40)
    await library.workshop.maintenance.maintain(library.tenant, library.index)
    await library.assert_exact(QUERIES)
    # Later chunks are weighted with the frozen mean length.
    await library.put("short", " ".join(WORDS[:6]))
    await library.workshop.maintenance.maintain(library.tenant, library.index)
    await library.assert_exact(QUERIES, avgdl=await library.avgdl())
    assert await library.workshop.inconsistencies() == {}


async def test_chunks_ingested_during_recomputation_get_new_weights(library: IndexedKnowledgeBase) -> None:
    await library.put("first", " ".join(WORDS))
    before = await library.avgdl()
    library.workshop.endpoint.fail("slow", times=1, seconds=1.0)
    late = await add_text(library.services, " ".join(WORDS[:7]), external_id="late")
    ingesting = asyncio.create_task(library.workshop.ingest(late))
    await until(lambda: is_embedding(library.workshop, late.id))
    await library.workshop.maintenance.maintain(library.tenant, library.index)
    assert not ingesting.done()
    assert await library.avgdl() != before
    await ingesting
    library.texts[late.id] = " ".join(WORDS[:7])
    await library.assert_exact(QUERIES, avgdl=await library.avgdl())


async def is_embedding(workshop: Workshop, document: UUID) -> bool:
    return await workshop.status(document) == "embedding"


async def test_folding_leaves_one_row_per_key(library: IndexedKnowledgeBase) -> None:
    await library.put("a text", " ".join(WORDS))
    await library.crowd()
    count = "select count(*) from term_document_frequency where index_id = $1"
    assert await library.workshop.owner.fetchval(count, library.index) > 1200
    await library.workshop.maintenance.maintain(library.tenant, library.index)
    assert await library.workshop.owner.fetchval(count, library.index) == len(set(ANALYZER.tokenize(" ".join(WORDS))))
    assert await library.workshop.inconsistencies() == {}


async def test_maximum_weight_of_term_is_constant_until_recomputation(library: IndexedKnowledgeBase) -> None:
    """The maximum weight is constant until the weights are recomputed.

    Then it is not lower, and below the theoretical maximum.
    """

    async def greatest() -> dict[int, tuple[float, float]]:
        found = await library.workshop.owner.fetch(f"{MAX_WEIGHTS_SQL} where a.index_id = $1", library.index)
        return {row["key"]: (row["max_weight"], row["weight"]) for row in found}

    await library.put("short", " ".join(WORDS[:5]))
    await library.put("long", " ".join(WORDS * 2))
    first = await greatest()
    assert len(first) == len(set(ANALYZER.tokenize(" ".join(WORDS))))
    assert all(top == weight for top, weight in first.values())
    for name, text in (("fewer", WORDS[3]), ("more", " ".join(WORDS * 20))):
        before = await library.avgdl()
        await library.put(name, text)
        await library.workshop.maintenance.maintain(library.tenant, library.index)
        assert await library.avgdl() != before
    assert await library.avgdl() > before
    await library.delete(next(id_ for id_, text in library.texts.items() if text == " ".join(WORDS * 20)))
    assert all(weight <= top < 1 for top, weight in (await greatest()).values())


async def test_drifted_index_is_found_and_maintained_once(library: IndexedKnowledgeBase) -> None:
    """An index that has drifted gets a job; unchanged indexes are not read."""
    await library.put("a text", " ".join(WORDS))
    await library.workshop.drop_jobs()
    assert await library.workshop.maintenance.scan() >= 1
    assert await library.workshop.maintenance.scan() == 0
    jobs: list[Any] = await library.workshop.owner.fetch("select kind, tenant_id, payload, priority from job")
    assert {(job["kind"], job["priority"]) for job in jobs if job["tenant_id"] == library.tenant} == {
        ("maintain_index", -10),
        ("refresh_routing_profile", -10),  # every index with its first chunks
    }
    async with library.workshop.working():
        await until(lambda: has_drifted(library, 100))
    await library.assert_exact(QUERIES)
    await library.workshop.drop_jobs()


async def has_drifted(library: IndexedKnowledgeBase, avgdl: float) -> bool:
    return await library.avgdl() != avgdl


async def test_deleted_knowledge_base_leaves_no_frequencies(library: IndexedKnowledgeBase) -> None:
    await library.put("a text", " ".join(WORDS))
    await library.services.knowledge_bases.delete("default")
    await library.workshop.maintenance.maintain(library.tenant, library.index)
    await library.workshop.maintenance.scan()
    await library.workshop.run_jobs(PURGE_KNOWLEDGE_BASE_JOB)
    for table in ("term_document_frequency", "index_totals"):
        left = f"select count(*) from {table} where index_id = $1"
        assert await library.workshop.owner.fetchval(left, library.index) == 0


async def test_folding_statement_has_no_join(library: IndexedKnowledgeBase) -> None:
    """Without statistics a join is planned for one row; with a hundred thousand rows it takes minutes."""
    explain = Statement(f"explain {MERGE_FREQUENCIES.sql}", MERGE_FREQUENCIES.parameter_names)
    async with library.services.content.db.transaction() as session:
        plan = [row[0] for row in await session.fetch_rows(explain, {"tenant": library.tenant, "index": library.index})]
    assert any("Delete on term_document_frequency" in line for line in plan)
    assert not any(word in line for line in plan for word in ("Join", "Nested Loop"))
