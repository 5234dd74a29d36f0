"""Walk in the entity graph: the database function agrees with a walk in numpy on random small graphs."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import numpy as np
import numpy.typing as npt
import pytest

from app.filters import compile_filter
from app.ids import decode_id
from harness.running_service import Service, Tenant
from tests.retrieval.conftest import post_text, settle

CHUNKS, ENTITIES, HUB_CHUNKS = 24, 14, 20
Floats = npt.NDArray[np.float64]

SET_TENANT = "select set_config('app.tenant_id', $1, true)"
WALK = """
select chunk_id, mass, is_cut from graph_walk($1, $2, $3, $4, $5, $6, $7, $8, $9, null, $10, $11, 0.02, $15, 200, false,
                                              $12, $13, $14, null) where step = $10"""


@dataclass(frozen=True, slots=True)
class RandomGraph:
    """Random graph with a start, and the chunks that the caller may read.

    Attributes:
        counts: How often each chunk (row) names each entity (column).
        titles: Whether a chunk has the entity as a title.
        seeds: Mass of each chunk at the start.
        names: Mass of each entity at the start.
        readable: Whether the caller may read each chunk.
        merged: Entity that each entity counts as.
    """

    counts: npt.NDArray[np.int64]
    titles: npt.NDArray[np.bool_]
    seeds: Floats
    names: Floats
    readable: npt.NDArray[np.bool_]
    merged: npt.NDArray[np.int64]

    def walk(self, hops: int, damping: float) -> Floats:
        """Return the mass of each chunk after a walk, by the definition."""
        merge = np.zeros((ENTITIES, ENTITIES))
        merge[np.arange(ENTITIES), self.merged] = 1
        counts = self.counts @ merge
        frequencies = (self.counts > 0).sum(axis=0) @ merge
        titles = self.titles @ merge > 0
        usable = (frequencies <= HUB_CHUNKS) & ((frequencies > 1) | titles)
        rarity = np.log(1 + CHUNKS / np.maximum(frequencies, 1))
        named = (counts > 0) & usable & self.readable[:, None]
        weights = np.where(named, (1 + np.log(np.maximum(counts, 1))) * rarity, 0.0)
        to_entities = weights / np.maximum(weights.sum(axis=1, keepdims=True), 1e-300)
        to_chunks = weights / np.maximum(weights.sum(axis=0, keepdims=True), 1e-300)
        start = np.where(usable, self.names, 0.0)
        chunks, entities = self.seeds, start
        for _ in range(hops):
            chunks, entities = (
                (1 - damping) * self.seeds + damping * (to_chunks @ entities),
                (1 - damping) * start + damping * (to_entities.T @ chunks),
            )
        return chunks


def generate_graph(rng: np.random.Generator, *, hidden: npt.NDArray[np.bool_], has_merges: bool) -> RandomGraph:
    """Generate a graph whose last entity is a hub that all chunks name, and whose first is in one chunk."""
    counts = rng.integers(1, 6, (CHUNKS, ENTITIES)) * (rng.random((CHUNKS, ENTITIES)) < 0.15)
    counts[:, -1] = 3
    counts[:, 0] = 0
    counts[rng.integers(CHUNKS), 0] = 2
    readable = ~hidden
    seeds = np.zeros(CHUNKS)
    seeds[rng.choice(np.flatnonzero(readable), 3, replace=False)] = rng.random(3)
    names = rng.random(ENTITIES) * (rng.random(ENTITIES) < 0.3)
    merged = np.arange(ENTITIES)
    if has_merges:
        merged[1], merged[2] = 3, 4
        names[:3] = 0
    # The caller passes no names that are in one chunk only.
    names[np.bincount(merged, (counts > 0).sum(axis=0), ENTITIES) == 1] = 0
    return RandomGraph(counts, rng.random(ENTITIES) < 0.3, seeds, names, readable, merged)


@dataclass(frozen=True, slots=True)
class StoredChunks:
    """Chunks of a tenant, whose graph each test replaces in a transaction that it rolls back."""

    service: Service
    tenant_id: UUID
    index_id: UUID
    chunks: list[UUID]
    scope_key: UUID
    is_odd: npt.NDArray[np.bool_]

    def walk(self, graph: RandomGraph, hops: int, damping: float, **options: Any) -> Floats:
        """Return the mass of each chunk after a walk of the database."""
        masses = asyncio.run(self._walk(graph, hops, damping, **options))
        return np.array([masses.get(chunk, 0.0) for chunk in self.chunks])

    async def _walk(
        self,
        graph: RandomGraph,
        hops: int,
        damping: float,
        *,
        contains: str | None = None,
        is_scoped: bool = False,
        max_rows: int = 20_000,
    ) -> Mapping[UUID, float]:
        connection = await asyncpg.connect(self.service.urls.app)
        transaction = connection.transaction()
        await transaction.start()
        try:
            await connection.execute(SET_TENANT, str(self.tenant_id))
            await self._store(connection, graph, is_scoped=is_scoped)
            frequencies = (graph.counts > 0).sum(axis=0)
            seeds, names = np.flatnonzero(graph.seeds), np.flatnonzero(graph.names)
            aliases = [entity for entity in range(ENTITIES) if graph.merged[entity] != entity]
            group_sizes = [int(sum(frequencies[graph.merged == name])) for name in names]
            rows = await connection.fetch(
                WALK, self.tenant_id, self.index_id, [self.chunks[seed] for seed in seeds], graph.seeds[seeds].tolist(),
                names.tolist(), graph.names[names].tolist(), group_sizes, [self.scope_key], contains, hops, damping,
                aliases, [int(graph.merged[entity]) for entity in aliases], [None] * len(aliases), max_rows,
            )  # fmt: skip
            assert all(row["is_cut"] == (max_rows < CHUNKS) for row in rows)
            return {row["chunk_id"]: row["mass"] for row in rows}
        finally:
            await transaction.rollback()
            await connection.close()

    async def _store(self, connection: asyncpg.Connection, graph: RandomGraph, *, is_scoped: bool) -> None:
        """Replace the stored graph. With ``is_scoped``, hidden chunks belong to another level."""
        place = (self.tenant_id, self.index_id)
        for table in ("chunk_entity", "entity"):
            await connection.execute(f"delete from {table} where tenant_id = $1 and index_id = $2", *place)
        hidden_scope = uuid4()
        for number, chunk in enumerate(self.chunks):
            keys = np.flatnonzero(graph.counts[number])
            scope_key = hidden_scope if is_scoped and not graph.readable[number] else self.scope_key
            await connection.execute(
                "insert into chunk_entity values ($1, $2, $3, $4, $5, $6, $7, $8)", *place, chunk, scope_key,
                keys.tolist(), graph.counts[number, keys].tolist(), [f"name {key}" for key in keys], "n" * len(keys),
            )  # fmt: skip
        frequencies = (graph.counts > 0).sum(axis=0)
        await connection.executemany(
            "insert into entity values ($1, $2, $3, $4, $5, $6)",
            [(*place, key, int(frequencies[key]), int(graph.titles[key]), f"name {key}") for key in range(ENTITIES)],
        )


@pytest.fixture(scope="module")
def stored(service: Service) -> StoredChunks:
    tenant: Tenant = service.create_tenant("walks")
    for number in range(CHUNKS):
        post_text(tenant, f"the text {number}", metadata={"parity": "odd" if number % 2 else "even"})
    settle(tenant)
    tenant_id = decode_id("ten", tenant.id)
    assert tenant_id is not None

    async def read() -> list[asyncpg.Record]:
        connection = await asyncpg.connect(service.urls.owner)
        try:
            sql = """select index_id, chunk_id, scope_key, metadata::text like '%odd%' as is_odd from chunk_lexical
                      where tenant_id = $1"""
            return list(await connection.fetch(sql, tenant_id))
        finally:
            await connection.close()

    rows = asyncio.run(read())
    assert len(rows) == CHUNKS
    is_odd = np.array([row["is_odd"] for row in rows])
    chunks = [row["chunk_id"] for row in rows]
    return StoredChunks(service, tenant_id, rows[0]["index_id"], chunks, rows[0]["scope_key"], is_odd)


@pytest.mark.parametrize("hops", [1, 2, 3])
@pytest.mark.parametrize("seed", range(6))
def test_walk_agrees_with_walk_in_numpy(stored: StoredChunks, seed: int, hops: int) -> None:
    rng = np.random.default_rng(seed)
    graph = generate_graph(rng, hidden=np.zeros(CHUNKS, bool), has_merges=False)
    damping = rng.uniform(0.3, 1.0)
    found = stored.walk(graph, hops, damping)
    assert found == pytest.approx(graph.walk(hops, damping), rel=1e-9, abs=1e-12)
    assert (found > 0).sum() > 3 or hops == 1


@pytest.mark.parametrize("hops", [2, 3])
@pytest.mark.parametrize("seed", range(6))
def test_walk_with_merged_entities_agrees_with_walk_in_numpy(stored: StoredChunks, seed: int, hops: int) -> None:
    graph = generate_graph(np.random.default_rng(seed), hidden=np.zeros(CHUNKS, bool), has_merges=True)
    assert stored.walk(graph, hops, 0.7) == pytest.approx(graph.walk(hops, 0.7), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("hops", [2, 3])
@pytest.mark.parametrize("seed", range(6))
def test_walk_passes_through_chunks_of_readable_levels_only(stored: StoredChunks, seed: int, hops: int) -> None:
    rng = np.random.default_rng(seed)
    hidden = rng.random(CHUNKS) < 0.4
    graph = generate_graph(rng, hidden=hidden, has_merges=False)
    found = stored.walk(graph, hops, 0.7, is_scoped=True)
    assert found == pytest.approx(graph.walk(hops, 0.7), rel=1e-9, abs=1e-12)
    assert not found[hidden].any()


@pytest.mark.parametrize("hops", [2, 3])
@pytest.mark.parametrize("seed", range(6))
def test_walk_passes_through_chunks_of_filter_only(stored: StoredChunks, seed: int, hops: int) -> None:
    hidden = ~stored.is_odd
    graph = generate_graph(np.random.default_rng(seed), hidden=hidden, has_merges=seed % 2 == 1)
    contains, _, _ = compile_filter({"parity": "odd"}, enforced_filter=None).sql_params
    found = stored.walk(graph, hops, 0.7, contains=contains)
    assert found == pytest.approx(graph.walk(hops, 0.7), rel=1e-9, abs=1e-12)
    assert not found[hidden].any()


def test_walk_with_limit_of_rows_reads_fewer_chunks_and_says_so(stored: StoredChunks) -> None:
    graph = generate_graph(np.random.default_rng(0), hidden=np.zeros(CHUNKS, bool), has_merges=False)
    whole, cut = stored.walk(graph, 2, 0.7), stored.walk(graph, 2, 0.7, max_rows=HUB_CHUNKS)
    assert 0 < cut.sum() < whole.sum()


@pytest.mark.parametrize(("mass", "max_rows", "is_read"), [(0.001, 240, True), (0.001, 200, False), (0.5, 200, True)])
def test_walk_leaves_out_entities_that_give_little_to_many_chunks(
    stored: StoredChunks, mass: float, max_rows: int, is_read: bool
) -> None:
    counts = np.zeros((CHUNKS, ENTITIES), np.int64)
    counts[:2, 3] = counts[2:, 5] = 1
    counts[2 + HUB_CHUNKS :, 5] = 0
    names = np.zeros(ENTITIES)
    names[3], names[5] = 1.0, mass
    titles, merged = np.zeros(ENTITIES, bool), np.arange(ENTITIES)
    graph = RandomGraph(counts, titles, np.zeros(CHUNKS), names, np.ones(CHUNKS, bool), merged)
    found = stored.walk(graph, 1, 0.7, max_rows=max_rows)
    expected = graph.walk(1, 0.7) * np.where(counts[:, 5] > 0, is_read, True)
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-12)
