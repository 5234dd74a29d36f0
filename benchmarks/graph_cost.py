"""``make bench NAME=graph-cost``: measure the CPU time and the storage of the entity graph at ingestion.

``CARREL_EVAL_DATA`` names the directory of evaluation sets. The passages of musique-dev are ingested in turns, by a
knowledge base with a graph and by one without. A turn has short documents of one passage, or long ones of thirty.
The vectors come from the embedded model, as in the service. With ``--endpoint`` they come from a process that takes
almost no time, so the graph has a large share. The figures are medians of many turns. Storage is measured as ingestion
leaves it, and again after maintenance has merged the changes of frequencies and the tables are rewritten.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import httpx2

from app.cli.evaluation.corpus_upload import read_corpus
from app.cli.evaluation.datasets import CorpusLine
from app.ids import decode_id
from app.index_maintenance.repository import MERGE_ENTITIES, MERGE_FREQUENCIES
from benchmarks.evaluation_sets import upload_documents
from benchmarks.search import SET_TENANT_SQL
from harness.processes import (
    CpuSeconds,
    RunningService,
    embedding_endpoint,
    exit_on_sigterm,
    running_service,
)

SET = "musique-dev"
WITH_GRAPH, WITHOUT_GRAPH = "with", "without"
TURNS = 16
PASSAGES_OF_TURN = 90
PASSAGES_OF_LONG_DOCUMENT = 30
MAX_CPU_SHARE, MAX_STORAGE_SHARE = 0.02, 0.15
GRAPH_TABLES = ("chunk_entity", "entity", "private_entity_frequency", "relation")
CHUNK_TABLES = ("chunk", "chunk_embedding", "chunk_lexical", "term_document_frequency")
SIZES_SQL = """
select name, coalesce((select sum(pg_total_relation_size(t.relid))::bigint from pg_partition_tree(name::regclass) t),
                      pg_total_relation_size(name::regclass))
  from unnest($1::text[]) name"""


@dataclass(frozen=True, slots=True)
class CostFigures:
    """CPU seconds of each turn, by knowledge base, and the bytes of the tables before and after maintenance."""

    turns: dict[str, list[CpuSeconds]]
    sizes: dict[str, int]
    merged_sizes: dict[str, int]

    def compute_cpu(self, name: str) -> float:
        """Return the median CPU time of the turns of a knowledge base, in seconds."""
        return statistics.median(turn.carrel + turn.postgres for turn in self.turns[name])

    @property
    def cpu_share(self) -> float:
        """CPU time that the graph adds to a turn, as a share of the turn without a graph."""
        return self.compute_cpu(WITH_GRAPH) / self.compute_cpu(WITHOUT_GRAPH) - 1

    @property
    def storage_share(self) -> float:
        """Share of the bytes of the graph as ingestion leaves them."""
        return _compute_storage_share(self.sizes)

    @property
    def merged_storage_share(self) -> float:
        """Share of the bytes of the graph after maintenance."""
        return _compute_storage_share(self.merged_sizes)


def _compute_storage_share(sizes: dict[str, int]) -> float:
    """Return the bytes of the graph as a share of those of its chunks, which are half of the chunks."""
    return sum(sizes[table] for table in GRAPH_TABLES) / sum(sizes[table] for table in CHUNK_TABLES) * 2


def build_documents(passages: Sequence[CorpusLine], tag: str, *, long: bool) -> list[CorpusLine]:
    """Return the documents of a turn. The tag is in every passage, because vectors of equal texts are copied.

    Args:
        passages: Passages of the set.
        tag: Name of the turn.
        long: Whether a document has many passages.
    """
    size = PASSAGES_OF_LONG_DOCUMENT if long else 1
    return [
        CorpusLine(
            id=f"{tag}-{number}",
            title=part[0].title,
            text="\n\n".join(f"# {passage.title}\n\n{passage.text} ({tag})" for passage in part)
            if long
            else f"{part[0].text} ({tag})",
        )
        for number, part in enumerate(passages[start : start + size] for start in range(0, len(passages), size))
    ]


def measure(service: RunningService, passages: Sequence[CorpusLine], *, long: bool) -> CostFigures:
    """Ingest documents in turns, and return the CPU time of each turn and the storage."""
    kind = "long" if long else "short"
    names = {name: f"{kind}-{name}" for name in (WITH_GRAPH, WITHOUT_GRAPH)}
    turns: dict[str, list[CpuSeconds]] = {name: [] for name in names}
    with service.create_client() as client:
        for name, kb in names.items():
            client.post("/v1/knowledge-bases", json={"name": kb}).raise_for_status()
            if name == WITHOUT_GRAPH:
                asyncio.run(remove_graph(service, client, kb))
        tables = asyncio.run(read_sizes(service))
        for number in range(-1, TURNS):  # the first turn of each warms up
            start = max(number, 0) * PASSAGES_OF_TURN % (len(passages) - PASSAGES_OF_TURN)
            selected = passages[start : start + PASSAGES_OF_TURN]
            for name in sorted(names, reverse=number % 2 == 0):
                documents = build_documents(selected, f"{kind}-{number}-{name}", long=long)
                before = service.measure_cpu()
                upload_documents(client, names[name], documents)
                if number >= 0:
                    turns[name].append(service.measure_cpu() - before)
        grown = asyncio.run(read_sizes(service))
        asyncio.run(merge_frequencies(service, client.get("/v1/me").json()["tenant"]["id"]))
        merged = asyncio.run(read_sizes(service))
    grown_sizes, merged_sizes = (
        {table: sizes[table] - size for table, size in tables.items()} for sizes in (grown, merged)
    )
    return CostFigures(turns, grown_sizes, merged_sizes)


@asynccontextmanager
async def open_tenant_connection(service: RunningService, tenant: str) -> AsyncIterator[asyncpg.Connection]:
    """Open a transaction of a tenant with the service's database role.

    Args:
        service: The running service.
        tenant: Public id of the tenant.
    """
    connection = await asyncpg.connect(service.database_url)
    try:
        async with connection.transaction():
            await connection.execute(SET_TENANT_SQL, str(decode_id("ten", tenant)))
            yield connection
    finally:
        await connection.close()


async def remove_graph(service: RunningService, client: httpx2.Client, kb: str) -> None:
    """Remove the graph of a new knowledge base, from its row and from the row of its search index."""
    tenant = client.get("/v1/me").json()["tenant"]["id"]
    kb_id = decode_id("kb", client.get(f"/v1/knowledge-bases/{kb}").json()["id"])
    async with open_tenant_connection(service, tenant) as connection:
        settings = """update knowledge_base set graph = graph || '{"enabled": false}' where id = $1"""
        for statement in (settings, "update search_index set graph = null where kb_id = $1"):
            assert await connection.execute(statement, kb_id) == "UPDATE 1"


async def merge_frequencies(service: RunningService, tenant: str) -> None:
    """Merge the changes of frequencies as maintenance does, and rewrite the measured tables.

    Args:
        service: The running service.
        tenant: Public id of the tenant.
    """
    async with open_tenant_connection(service, tenant) as connection:
        for (index_id,) in await connection.fetch("select id from search_index"):
            values = {"tenant": decode_id("ten", tenant), "index": index_id}
            for merge in (MERGE_ENTITIES, MERGE_FREQUENCIES):
                await connection.execute(merge.sql, *merge.order_arguments(values))
    runtime = json.loads((service.data_dir / "runtime.json").read_text())
    owner = await asyncpg.connect(runtime["admin_database_url"])
    try:
        for table in (*CHUNK_TABLES, *GRAPH_TABLES):
            await owner.execute(f"vacuum full {table}")
    finally:
        await owner.close()


async def read_sizes(service: RunningService) -> dict[str, int]:
    """Return the bytes of the measured tables with their indexes."""
    connection = await asyncpg.connect(service.database_url)
    try:
        return dict(await connection.fetch(SIZES_SQL, [*CHUNK_TABLES, *GRAPH_TABLES]))
    finally:
        await connection.close()


def show(kind: str, figures: CostFigures) -> None:
    """Print the figures of one kind of documents."""
    cpu = {name: f"{figures.compute_cpu(name) / PASSAGES_OF_TURN * 1000:.2f}" for name in figures.turns}
    shares = f"{figures.cpu_share:+.1%} | {figures.storage_share:+.1%} | {figures.merged_storage_share:+.1%}"
    print(f"| {kind} | {cpu[WITHOUT_GRAPH]} | {cpu[WITH_GRAPH]} | {shares} |", flush=True)
    sizes = ", ".join(
        f"{table} {size / 1e6:.1f} -> {figures.merged_sizes[table] / 1e6:.1f}" for table, size in figures.sizes.items()
    )
    turns = ", ".join(
        f"{name} {' '.join(f'{turn.carrel:.2f}+{turn.postgres:.2f}' for turn in turns)}"
        for name, turns in figures.turns.items()
    )
    sys.stderr.write(f"{kind}: MB: {sizes}\n{kind}: CPU seconds of Carrel and Postgres: {turns}\n")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Cost of the entity graph at ingestion")
    parser.add_argument("--endpoint", action="store_true", help="take the vectors from an endpoint without cost")
    parser.add_argument("--kinds", default="short,long", help="kinds of documents")
    provided = parser.parse_args(arguments)
    data = os.environ.get("CARREL_EVAL_DATA")
    if not data or not (Path(data) / SET).is_dir():
        sys.stderr.write(f"CARREL_EVAL_DATA does not name a directory with {SET}\n")
        return 2
    passages = read_corpus(Path(data) / SET / "corpus.jsonl")
    print(f"targets: CPU {MAX_CPU_SHARE:+.0%}, storage of chunks {MAX_STORAGE_SHARE:+.0%}; medians of {TURNS} turns\n")
    print("| documents | ms of CPU a passage, without a graph | with a graph | CPU | storage | after maintenance |")
    print("| --- | --- | --- | --- | --- | --- |")
    with embedding_endpoint() as url, running_service(url if provided.endpoint else None) as service:
        for kind in provided.kinds.split(","):
            show(kind, measure(service, passages, long=kind == "long"))
    return 0


if __name__ == "__main__":
    exit_on_sigterm()
    sys.exit(main(sys.argv[1:]))
