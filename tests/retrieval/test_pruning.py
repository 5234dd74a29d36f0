"""Pruning of the lexical retriever in a large index: the same results as with all chunks scored, for any filter."""

import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

import asyncpg
import numpy as np
import pytest
from pgvector import SparseVector

from app.db.index_ddl import VectorIndexSpec
from app.embedded_postgres import DatabaseUrls
from app.lexical.weights import DIMENSIONS, LexicalEntry, build_entries, compute_query_terms, compute_salt
from tests.index_maintenance.maintained_database import SCOPE, FilledIndex, open_maintained_database

# Above 5,000 chunks not all are scored. Above 20,000, which the test pretends, a sample estimates a filter's
# share.
CHUNKS, PRETENDED = 5500, 100_000
TERMS = [f"term{number}" for number in range(400)]
COMMON = [1 / rank for rank in range(1, len(TERMS) + 1)]
STRANGER = UUID(int=6)
ADD = """
with lexical as (
  select * from unnest($5::uuid[], $6::uuid[], $7::jsonb[], $8::int[], $9::sparsevec[], $10::text[])
    with ordinality u(id, scope, metadata, length, terms, keys, n)
), chunks as (
  insert into chunk (tenant_id, kb_id, index_id, id, document_id, version, ordinal, content, start_offset, end_offset,
                     token_count, node_path)
  select $1, $2, $3, id, $4, 1, n, '', 0, 0, 1, '{}' from lexical
), frequencies as (
  insert into term_document_frequency (tenant_id, index_id, key, df, max_weight)
  select $1, $3, u.* from unnest($11::int[], $12::int[], $13::real[]) u
)
insert into chunk_lexical (tenant_id, index_id, chunk_id, dl, scope_key, metadata, terms, keys)
select $1, $3, id, length, scope, metadata, terms, keys::int4[] from lexical"""
# Chunks and weights of each term.
Postings = dict[int, tuple[list[int], list[float]]]


@dataclass(frozen=True)
class Filter:
    """A filter of metadata, and the same condition on a chunk's number; a fifth of the chunks has another scope."""

    contains: str | None = None
    path: str | None = None
    keep: Callable[[int], bool] = lambda number: True
    scopes: Sequence[UUID] = (SCOPE,)
    lookup: str | None = None

    def passes(self, number: int) -> bool:
        return (number % 5 != 4 or STRANGER in self.scopes) and self.keep(number)


FILTERS = {
    "everything": Filter(scopes=(SCOPE, STRANGER)),
    "scope": Filter(),
    "half by range": Filter(
        path='strict $."n" >= 2750', keep=lambda number: number >= 2750, lookup='[{"path": ["n"], "low": 2750}]'
    ),
    "tenth by range": Filter(
        path='strict $."n" < 550', keep=lambda number: number < 550, lookup='[{"path": ["n"], "high": 550}]'
    ),
    "third by containment": Filter(contains='{"third": 1}', keep=lambda number: number % 3 == 1),
    "sixth by containment": Filter(
        contains='{"sixth": 1}', keep=lambda number: number % 6 == 1, lookup='[{"path": ["sixth"], "equal": 1}]'
    ),
    "both": Filter(
        '{"sixth": 1}',
        'strict $."n" < 2750',
        lambda number: number % 6 == 1 and number < 2750,
        lookup='[{"path": ["sixth"], "equal": 1}]',
    ),
    "list": Filter(path='strict exists($."sixth" ? (@ == 1 || @ == 2))', keep=lambda number: number % 6 in (1, 2)),
    "few": Filter(path='strict $."n" < 30', keep=lambda number: number < 30, lookup='[{"path": ["n"], "high": 30}]'),
    "few by list": Filter(path='strict exists($."n" ? (@ == 3 || @ == 5))', keep=lambda number: number in (3, 5)),
    "none": Filter(contains='{"third": 7}', keep=lambda number: False),
}
SIZES = {
    "counted": (CHUNKS, "exact", False),
    "sampled": (PRETENDED, "exact", False),
    "indexed": (PRETENDED, "hnsw", False),
    "looked up": (PRETENDED, "hnsw", True),
}


@dataclass(frozen=True)
class FilledLexicalTable:
    """Contents of a filled lexical table."""

    index: FilledIndex
    ids: Sequence[UUID]
    postings: Postings

    async def pretend(self, chunks: int, vector_index: str) -> None:
        owner = self.index.world.owner
        await owner.execute("delete from index_totals")
        totals = "insert into index_totals (tenant_id, index_id, chunks, tokens) values ($1, $2, $3, $3)"
        await owner.execute(totals, self.index.tenant, self.index.id, chunks)
        await owner.execute("update search_index set vector_index = $2 where id = $1", self.index.id, vector_index)

    async def search(self, terms: Sequence[str], asked: Filter, *, k: int, looks_up: bool) -> list[tuple[UUID, float]]:
        ids, keys = compute_query_terms(terms, compute_salt(self.index.id))
        async with self.index.world.maintenance.database.transaction(self.index.tenant) as session:
            rows: list[asyncpg.Record] = await session._driver.fetch(
                "select * from hybrid_search($1, $2, null, null, $3, $4, $5, $6::jsonb, $7::jsonpath,"
                "                            0, $8, $9::jsonb)",
                self.index.tenant, self.index.id, ids, keys, asked.scopes, asked.contains, asked.path, k,
                asked.lookup if looks_up else None,
            )  # fmt: skip
        return [(row["chunk_id"], row["score"]) for row in rows]

    def expected(self, terms: Sequence[str], asked: Filter, *, chunks: int) -> dict[UUID, float]:
        """Return the score of every chunk that passes the filter and has one of the terms."""
        scores = np.zeros(len(self.ids))
        for term in compute_query_terms(terms, 0)[0]:
            numbers, weights = self.postings.get(term, ([], []))
            frequency = len(numbers)
            scores[numbers] += np.log(1 + (chunks - frequency + 0.5) / (frequency + 0.5)) * np.asarray(weights)
        matching = np.flatnonzero(scores).tolist()
        return {self.ids[number]: float(scores[number]) for number in matching if asked.passes(number)}


def postings_of(entries: Sequence[LexicalEntry]) -> Postings:
    made: Postings = {}
    for number, entry in enumerate(entries):
        for term, weight in zip(entry.term_ids, entry.weights, strict=True):
            numbers, weights = made.setdefault(term, ([], []))
            numbers.append(number)
            weights.append(weight)
    return made


@pytest.fixture(scope="module")
async def filled(database: DatabaseUrls) -> AsyncIterator[FilledLexicalTable]:
    async with open_maintained_database(database, threshold=CHUNKS) as world:
        index, rng = await world.new_index(3), random.Random(4)
        texts = [rng.choices(TERMS, COMMON, k=rng.randint(3, 40)) for _ in range(CHUNKS)]
        # Repeated terms come close to the maximum weight of a term.
        texts[::3] = [rng.choices(TERMS, COMMON, k=2) * 15 for _ in texts[::3]]
        entries = build_entries(texts, salt=compute_salt(index.id), avgdl=20)
        ids = [UUID(int=rng.getrandbits(128)) for _ in texts]
        df = Counter(key for entry in entries for key in entry.keys)
        tops: dict[int, float] = {}
        for entry in entries:
            for key, weight in zip(entry.keys, entry.weights, strict=True):
                tops[key] = max(weight, tops.get(key, 0.0))
        await world.owner.execute(
            ADD, index.tenant, index.kb, index.id, index.document, ids,
            [STRANGER if number % 5 == 4 else SCOPE for number in range(CHUNKS)],
            [json.dumps({"n": number, "third": number % 3, "sixth": number % 6}) for number in range(CHUNKS)],
            [entry.length for entry in entries],
            [SparseVector(dict(zip(e.term_ids, e.weights, strict=True)), DIMENSIONS) for e in entries],
            ["{" + ",".join(map(str, entry.keys)) + "}" for entry in entries],
            list(df), list(df.values()), [tops[key] for key in df],
        )  # fmt: skip
        definitions = VectorIndexSpec(index.tenant, index.id, 3).build_definitions("chunk_embedding_other")
        for indexed in (f"filter_{index.id.hex}", f"filterl_{index.id.hex}"):
            await world.owner.execute(f"create index {indexed} on {definitions[indexed]}")
        yield FilledLexicalTable(index, ids, postings_of(entries))


def questions() -> list[list[str]]:
    """Return queries that mix rare and common terms, so that the pruning cuts at any of them."""
    rng = random.Random(5)
    mixed = [rng.sample(TERMS, rng.randint(1, 8)) for _ in range(3)]
    common = [rng.sample(TERMS[:20], rng.randint(2, 6)) for _ in range(2)]
    long = [rng.sample(TERMS, 100), [*TERMS, *(f"unknown{number}" for number in range(2000))]]
    return [*mixed, *common, *long, [TERMS[0]], [TERMS[0], TERMS[1], TERMS[-1], "unknown"], ["unknown"]]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", FILTERS)
async def test_pruned_search_equals_full_scoring(filled: FilledLexicalTable, size: str, name: str) -> None:
    chunks, vector_index, looks_up = SIZES[size]
    await filled.pretend(chunks, vector_index)
    for terms in questions():
        wanted = filled.expected(terms, FILTERS[name], chunks=chunks)
        best = sorted(wanted.values(), reverse=True)
        for k in (1, 60):
            found = await filled.search(terms, FILTERS[name], k=k, looks_up=looks_up)
            assert [score for _, score in found] == pytest.approx(best[:k], rel=1e-6, abs=1e-5), (terms, k)
            assert [score for _, score in found] == pytest.approx([wanted[id_] for id_, _ in found], rel=1e-6, abs=1e-5)
            assert len({id_ for id_, _ in found}) == len(found)
