"""``make bench NAME=transfer``: export and import a knowledge base of 100,000 chunks, and compare the two.

COPY fills the chunks of the first knowledge base in a new database. The benchmark then adds originals, nodes and stored
texts. The commands ``carrel export`` and ``carrel import`` do the transfer over HTTP.
"""

import argparse
import asyncio
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import asyncpg
import httpx2

from app.documents.types import build_node_id, build_object_key
from app.ids import derive_id
from benchmarks.scale_corpus import MEAN_WORDS, Question, SyntheticCorpus, build_share_metadata
from benchmarks.scale_database import ScaleDatabase, running_api, running_postgres
from harness.loader import CHUNKS_PER_DOCUMENT, IndexReference, LoadBatch, Loader
from harness.processes import ROOT, CpuSeconds, embedding_endpoint, exit_on_sigterm, list_process_tree

CHUNKS, QUESTIONS, TOP = 100_000, 200, 10
ScoredTexts = list[tuple[float, str]]
SEPARATOR = "\n\n"
NODE_COLUMNS = [
    "tenant_id", "document_id", "id", "parent_id", "ordinal", "kind", "level", "start_offset", "end_offset", "block",
]  # fmt: skip


async def complete_documents(
    connection: asyncpg.Connection, place: IndexReference, batches: Iterable[LoadBatch], objects: Path
) -> None:
    """Add originals, nodes and texts to the loaded documents.

    Titles are removed, because the loaded terms do not include the words of titles.
    """
    number = 0
    for batch in batches:
        created = []
        for start in range(0, len(batch.texts), CHUNKS_PER_DOCUMENT):
            document = derive_id("bench", place.kb_id, number)
            text = SEPARATOR.join(batch.texts[start : start + CHUNKS_PER_DOCUMENT])
            key = build_object_key(place.tenant_id, document, derive_id("upload", number))
            (objects / key).parent.mkdir(parents=True, exist_ok=True)
            (objects / key).write_text(text)
            created.append((document, key, text))
            number += 1
        await _add_documents(connection, place, created)
    await connection.execute(_OFFSETS_SQL, place.tenant_id)


async def _add_documents(
    connection: asyncpg.Connection, place: IndexReference, records: Sequence[tuple[Any, str, str]]
) -> None:
    tenant = place.tenant_id
    texts = [(tenant, document, 1, text) for document, _, text in records]
    keys = [(tenant, document, 1, key) for document, key, _ in records]
    nodes: list[tuple[Any, ...]] = []
    for document, _, text in records:
        root = build_node_id(document, 1, ())
        nodes.append((tenant, document, root, None, 0, "document", 0, 0, len(text), None))
        nodes.append(
            (tenant, document, build_node_id(document, 1, (0,)), root, 1, "paragraph", 0, 0, len(text), "paragraph")
        )
    columns = ["tenant_id", "document_id", "version"]
    await connection.copy_records_to_table("document_text", records=texts, columns=[*columns, "content"])
    await connection.copy_records_to_table("document_object", records=keys, columns=[*columns, "key"])
    await connection.copy_records_to_table("node", records=nodes, columns=NODE_COLUMNS)
    hashes = [hashlib.sha256(text.encode()).digest() for _, _, text in records]
    sizes = [len(text.encode()) for _, _, text in records]
    await connection.execute(_FACTS_SQL, tenant, [document for document, _, _ in records], hashes, sizes)


_FACTS_SQL = """
update document d set title = null, sha256 = u.sha256, bytes = u.bytes
  from unnest($2::uuid[], $3::bytea[], $4::bigint[]) u(id, sha256, bytes) where d.tenant_id = $1 and d.id = u.id"""
_OFFSETS_SQL = f"""
update chunk c set start_offset = s.start, end_offset = s.start + length(c.content)
  from (select id, sum(length(content) + {len(SEPARATOR)}) over (partition by document_id order by ordinal)
                   - length(content) - {len(SEPARATOR)} as start from chunk where tenant_id = $1) s
 where c.tenant_id = $1 and c.id = s.id"""


def collect_answers(client: httpx2.Client, kb: str, questions: Sequence[Question]) -> list[ScoredTexts]:
    """Return negative scores and texts of the results of each question, sorted by score, then by text."""
    matches = []
    for question in questions:
        body = {"query": question.text, "top_k": TOP}
        results = client.post(f"/v1/knowledge-bases/{kb}/search", json=body).raise_for_status().json()["results"]
        matches.append(sorted((-result["score"], result["text"]) for result in results))
    return matches


def is_same_above_cutoff(first: ScoredTexts, other: ScoredTexts) -> bool:
    """Return whether two results differ only in hits with the score of the last place.

    Hits with equal scores are ordered by chunk id, and an imported chunk has a new id.
    """
    last = max(first, default=None)
    if last is None or [score for score, _ in first] != [score for score, _ in other]:
        return False
    return [each for each in first if each[0] < last[0]] == [each for each in other if each[0] < last[0]]


def measure_usage() -> tuple[CpuSeconds, float]:
    """Return the CPU seconds of the API and of Postgres since their start, and the API's peak memory in MB.

    The API is the child process with the highest peak memory.
    """
    tree = list_process_tree(os.getpid())
    postgres = sum(each.cpu_seconds for each in tree if each.program == "postgres")
    api = max((each for each in tree if each.parent_pid == os.getpid()), key=lambda each: each.peak_mb)
    return CpuSeconds(api.cpu_seconds, postgres), api.peak_mb


def run_command(client: httpx2.Client, *arguments: str) -> dict[str, Any]:
    """Run a Carrel command, print its time, CPU and memory, and return its JSON output."""
    key = client.headers["authorization"].removeprefix("Bearer ")
    options = ["--url", str(client.base_url), "--key", key, "--json"]
    before, idle = measure_usage()
    started = time.monotonic()
    ended = subprocess.run([sys.executable, "-m", "app.cli", *arguments, *options], cwd=ROOT, stdout=-1, check=True)
    took = time.monotonic() - started
    after, peak = measure_usage()
    spent = after - before
    print(
        f"{arguments[0]}: {took:.0f} s; CPU of the API {spent.carrel:.1f} s, of Postgres {spent.postgres:.1f} s; "
        f"peak memory of the API {idle:.0f} MB before, {peak:.0f} MB after",
        flush=True,
    )
    reported: dict[str, Any] = json.loads(ended.stdout)
    return reported


def main(arguments: Sequence[str]) -> int:
    """Run the benchmark. Return 1 if a search of the copy returns other results, else 0."""
    parser = argparse.ArgumentParser(prog="make bench NAME=transfer", description=__doc__)
    parser.add_argument(
        "--chunks", type=int, default=CHUNKS, metavar="N", help=f"chunks of the knowledge base (default: {CHUNKS})"
    )
    chunks: int = parser.parse_args(arguments).chunks
    created = SyntheticCorpus(1)

    async def run_benchmark(archive: Path) -> int:
        async with (
            ScaleDatabase.open(postgres, "here", settings) as here,
            ScaleDatabase.open(postgres, "there", settings) as there,
        ):
            full, empty = await here.create_tenant("here"), await there.create_tenant("there")
            async with Loader.open(here.superuser_url) as loader, loader.without_secondary_indexes():
                await loader.fill_index(
                    full.index,
                    created.generate_batches(chunks, seed=1),
                    created.terms,
                    build_share_metadata,
                    avgdl=MEAN_WORDS,
                )
                objects = settings.server.data_dir / "objects"
                await complete_documents(
                    loader.connections[0], full.index, created.generate_batches(chunks, seed=1), objects
                )
            print(f"{chunks} chunks loaded", file=sys.stderr, flush=True)
            questions = created.generate_questions(QUESTIONS)
            with running_api(here.urls, settings, full.key) as client:
                before = await asyncio.to_thread(collect_answers, client, "default", questions)
                reported = await asyncio.to_thread(run_command, client, "export", "default", "--to", str(archive))
                print(f"{reported['documents']} documents, {reported['bytes'] / 1e6:.0f} MB")
            with running_api(there.urls, settings, empty.key) as client:
                reported = await asyncio.to_thread(run_command, client, "import", str(archive), "--kb", "copy")
                print(f"{reported['documents']} documents, {reported['chunks']} chunks")
                reported = await asyncio.to_thread(run_command, client, "import", str(archive), "--kb", "copy")
                print(f"{reported['existing']} documents already existed")
                after = await asyncio.to_thread(collect_answers, client, "copy", questions)
        pairs = list(zip(before, after, strict=True))
        same = sum(item == other for item, other in pairs)
        cut = sum(item != other and is_same_above_cutoff(item, other) for item, other in pairs)
        print(f"identical results: {same} of {len(questions)} searches, {sum(map(len, before))} results")
        print(f"different only in hits with the score of the last place, which are ordered by id: {cut}")
        return int(same + cut < len(questions))

    with (
        tempfile.TemporaryDirectory() as folder,
        embedding_endpoint() as endpoint,
        running_postgres(endpoint) as (postgres, settings),
    ):
        return asyncio.run(run_benchmark(Path(folder) / "archive.tar"))


if __name__ == "__main__":
    exit_on_sigterm()
    sys.exit(main(sys.argv[1:]))
