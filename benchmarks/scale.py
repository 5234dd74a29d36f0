"""``make bench NAME=scale``: measure search in knowledge bases of 1,000 to 1,000,000 chunks.

The tables are filled by COPY; figures and drawing go into ``docs/``. Questions bring their vectors, so that no model is
asked. Recall is measured with real passages and the embedded model's vectors where ``CARREL_EVAL_DATA`` names the
directory of evaluation sets. Exit code 1 where recall@10 is below 0.98, or a search returned neither ``top_k`` results
nor all there are; times are told and judge nothing, for they depend on the machine.
"""

import argparse
import asyncio
import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import uvloop

from app.embedded_postgres import EmbeddedPostgres
from app.settings import Settings
from benchmarks.scale_corpus import MEAN, Floats, MadeUp, Question, Real, read_real, shares
from benchmarks.scale_curve import Point, curve_svg, curve_table, panels
from benchmarks.scale_database import Bare, ScaleDatabase, ScaleTenant, proportional_mb, running_api, running_postgres
from benchmarks.scale_measures import (
    CASES,
    FilterCase,
    by_filter,
    complete,
    lanes,
    over_http,
    plan,
    recall,
    side_by_side,
    timed,
    unit,
)
from harness.loader import PER_DOCUMENT, Batch, Loader
from harness.processes import ROOT, embedding_endpoint, end_as_usual

SMALL, TEN, HUNDRED, MILLION = 1000, 10_000, 100_000, 1_000_000
NEIGHBOURS = 50
THRESHOLD = 20_000
# The last is no lane: a table of nothing but vectors, as the least that Postgres can do.
LANE_REACHES = ("4x", "10x", "")
LEAST_RECALL = 0.98
FIGURES = "<!-- What follows is written by make bench NAME=scale. -->"


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says; ``real`` is None where there are no evaluation sets."""

    seed: int
    queries: int
    crowd: int
    docs: Path | None
    real: Real | None


class Run:
    """One run: what is measured is told at once; points of the cost curve and what was missed are kept for its end."""

    def __init__(self, options: Options, postgres: EmbeddedPostgres, settings: Settings) -> None:
        self.options, self.postgres, self.settings = options, postgres, settings
        self.made = MadeUp(options.seed)
        self.points: list[Point] = []
        self.told: list[str] = []
        self.missed: list[str] = []
        self._started = time.monotonic()

    @property
    def exit_code(self) -> int:
        """As the module's text has it."""
        return int(bool(self.missed))

    def tell(self, text: str) -> None:
        print(text, flush=True)
        self.told.append(text)

    def note(self, text: str) -> None:
        """How far it has come, on the side."""
        print(f"[{time.monotonic() - self._started:4.0f} s] {text}", file=sys.stderr, flush=True)

    async def all(self) -> None:
        load, options = os.getloadavg()[0], self.options
        self.tell(
            f"seed {options.seed}, {options.queries} questions of a kind, {os.cpu_count()} cores, load {load:.1f}"
        )
        await self.hundred()
        await self.ten()
        await self.small_among_many()
        if self.options.real is not None:
            await self.real(self.options.real)
        self.show_curve()

    async def load(self, database: ScaleDatabase, sizes: Sequence[tuple[str, int, int]]) -> list[ScaleTenant]:
        """Shelves by name, number of chunks and seed."""
        shelves = [await database.new_shelf(name) for name, _, _ in sizes]
        async with Loader.open(database.superuser_url) as loader, loader.bulk():
            for shelf, (_, chunks, seed) in zip(shelves, sizes, strict=True):
                batches = self.made.batches(chunks, seed=seed)
                await loader.fill(shelf.place, batches, self.made.terms, shares, avgdl=MEAN)
        self.note(f"{database.name}: {sum(chunks for _, chunks, _ in sizes)} chunks loaded")
        return shelves

    async def hundred(self) -> None:
        """100,000 chunks: the lanes without a vector index, then with it under every filter."""
        options = self.options
        async with ScaleDatabase.open(self.postgres, "hundred", self.settings) as database:
            (shelf,) = await self.load(database, [("hundred", HUNDRED, options.seed)])
            async with Bare.open(database.urls.app) as bare:
                batches = list(self.made.batches(HUNDRED, seed=options.seed))
                await self.show_lanes(database, shelf, bare, batches)
                started = time.monotonic()
                state = await database.maintain(shelf.place, threshold=THRESHOLD)
                self.tell(f"\nmaintenance made of it: {state}, in {time.monotonic() - started:.0f} s")
                await self.show_filters(shelf, bare)
                matrix = unit(np.concatenate([batch.vectors for batch in batches]))
                await self.show_recall(shelf, matrix, self.made.questions(options.queries), CASES[:5])
                await self.show_http(database, shelf)
                await self.add_point(database, shelf, bare, HUNDRED)

    async def ten(self) -> None:
        async with ScaleDatabase.open(self.postgres, "ten", self.settings) as database:
            (shelf,) = await self.load(database, [("ten", TEN, self.options.seed)])
            async with Bare.open(database.urls.app) as bare:
                await self.show_lanes(database, shelf, bare, list(self.made.batches(TEN, seed=self.options.seed)))
                await self.add_point(database, shelf, bare, TEN)

    async def small_among_many(self) -> None:
        """The same 1,000 chunks in a database of their own and in one with very many of others."""
        crowd, seed = self.options.crowd, self.options.seed
        others = [(f"neighbour {number}", SMALL, seed + 100 + number) for number in range(NEIGHBOURS)]
        async with AsyncExitStack() as stack:
            alone = await stack.enter_async_context(ScaleDatabase.open(self.postgres, "alone", self.settings))
            among = await stack.enter_async_context(ScaleDatabase.open(self.postgres, "among", self.settings))
            (first,) = await self.load(alone, [("small", SMALL, seed)])
            second, large, *_ = await self.load(among, [("small", SMALL, seed), ("large", crowd, seed + 1), *others])
            bare = await stack.enter_async_context(Bare.open(alone.urls.app))
            await self.add_point(alone, first, bare, SMALL)
            questions = self.made.questions(4 * self.options.queries)
            for state in ("exact", "hnsw"):
                if state == "hnsw":
                    started = time.monotonic()
                    await among.promote_in_haste(large.place, crowd)
                    self.note(f"{crowd} vectors indexed in {time.monotonic() - started:.0f} s")
                by_itself, beside = await side_by_side(first, second, questions)
                self.tell(
                    f"\n{SMALL} chunks alone {by_itself:.2f} ms, among {crowd + NEIGHBOURS * SMALL} of {NEIGHBOURS + 1}"
                    f" other tenants ({state}) {beside:.2f} ms: {beside / by_itself:.2f}x (reach: 1.5x)"
                )
            if crowd > HUNDRED:
                bare = await stack.enter_async_context(Bare.open(among.urls.app))
                await self.add_point(among, large, bare, crowd)

    async def real(self, real: Real) -> None:
        """Recall with the embedded model's vectors, below the threshold too so that the index is what is asked."""
        async with ScaleDatabase.open(self.postgres, "real", self.settings) as database:
            shelf = await database.new_shelf("real")
            table, batches = real.batches()
            mean = float(np.mean(np.concatenate([batch.lengths for batch in batches])))
            async with Loader.open(database.superuser_url) as loader, loader.bulk():
                chunks = await loader.fill(shelf.place, batches, table, real.describe, avgdl=mean)
            await database.maintain(shelf.place, threshold=min(THRESHOLD, chunks))
            self.tell(f"\n{chunks} passages of the evaluation sets, {len(real.questions)} of their questions:")
            own = np.array(real.sets)[::PER_DOCUMENT]
            sets = [
                FilterCase(f"of {name}", {"set": name}, partial(_is, own, name)) for name in dict.fromkeys(real.sets)
            ]
            worst = await self.show_recall(shelf, unit(real.vectors), real.questions, [*CASES[:5], *sets])
            self.tell(f"\nrecall@10 on real embeddings: {worst:.3f} in the worst case (reach: {LEAST_RECALL})")

    async def show_lanes(
        self, database: ScaleDatabase, shelf: ScaleTenant, bare: Bare, batches: Sequence[Batch]
    ) -> None:
        questions, pid = self.made.questions(self.options.queries), self.postgres.pid
        async with database.vectors_alone(bare.connection) as alone:
            found = await lanes(shelf, bare, questions, batches, self.made.terms, postgres=pid, alone=alone)
        chunks = sum(len(batch.texts) for batch in batches)
        self.tell(f"\nbare SQL of a lane, {chunks} chunks, the best 100, ms:")
        self.tell("\n| lane, beside | SQL p50 | the other's p50 | ratio | SQL CPU | the other's CPU | ratio | reach |")
        self.tell("| --- | --- | --- | --- | --- | --- | --- | --- |")
        for one, reach in zip(found, LANE_REACHES, strict=True):
            self.tell(
                f"| {one.name} | {one.sql:.2f} | {one.rival:.2f} | {one.sql / one.rival:.1f}x"
                f" | {one.sql_cpu:.2f} | {one.rival_cpu:.2f} | {one.sql_cpu / one.rival_cpu:.1f}x | {reach} |"
            )

    async def show_filters(self, shelf: ScaleTenant, bare: Bare) -> None:
        questions = self.made.questions(5 * self.options.queries // 2)
        found = await by_filter(shelf, bare, questions, postgres=self.postgres.pid)
        self.tell(f"\nhybrid search, {HUNDRED} chunks, ms a search:\n")
        self.tell("| filter | p50 | p95 | bare SQL p50 | p50 over it | Postgres CPU | plan (dense, lexical) |")
        self.tell("| --- | --- | --- | --- | --- | --- | --- |")
        for one in found:
            self.tell(
                f"| {one.case.name} | {one.p50:.1f} | {one.p95:.1f} | {one.bare:.1f} | {one.p50 / one.bare:.2f}x"
                f" | {one.cpu:.1f} | {one.plan} |"
            )
        worst = max(found, key=lambda one: one.p50)
        self.tell(f"\nslowest: {worst.p50:.1f} ms with {worst.case.name} (reach: 20)")
        await self.show_complete(shelf, questions[:3], HUNDRED)

    async def show_complete(self, shelf: ScaleTenant, questions: Sequence[Question], chunks: int) -> None:
        right, asked = await complete(shelf, questions, chunks)
        self.tell(f"`top_k` results, or all there are: {right} of {asked} searches (reach: all)")
        if right < asked:
            self.missed.append(f"top_k results: {right} of {asked} searches")

    async def show_recall(
        self, shelf: ScaleTenant, matrix: Floats, questions: Sequence[Question], cases: Sequence[FilterCase]
    ) -> float:
        """Returns the worst."""
        self.tell("\n| filter | plan (dense, lexical) | recall@10 |\n| --- | --- | --- |")
        worst = 1.0
        for case in cases:
            share = await recall(shelf, matrix, questions, case.filter, case.rows(len(matrix)))
            self.tell(f"| {case.name} | {await plan(shelf, questions[0], case.filter)} | {share:.3f} |")
            worst = min(worst, share)
            if not share >= LEAST_RECALL:
                self.missed.append(f"recall@10 of {share:.3f}, filter: {case.name}")
        return worst

    async def show_http(self, database: ScaleDatabase, shelf: ScaleTenant) -> None:
        questions = self.made.questions(self.options.queries)
        with running_api(database.urls, self.settings, shelf.key) as client:
            plain = await asyncio.to_thread(over_http, client, questions, None)
            filtered = await asyncio.to_thread(over_http, client, questions, {"number": {"lt": 1000}})
        self.tell(f"\nthe same over HTTP, p50 ms: {plain:.1f} without a filter, {filtered:.1f} with a range of 10 %")

    async def add_point(self, database: ScaleDatabase, shelf: ScaleTenant, bare: Bare, chunks: int) -> None:
        """Of a knowledge base that is by far the largest of its database."""
        questions, place = self.made.questions(self.options.queries), shelf.place

        async def p50(ask: Callable[[Question], Awaitable[object]]) -> float:
            took = await timed(ask, questions)
            return statistics.median(took[len(took) // 5 :])

        point = Point(
            chunks=chunks,
            vector_index=await database.vector_index(place),
            hybrid=await p50(shelf.search),
            dense=await p50(partial(bare.run, place, lane="dense")),
            lexical=await p50(partial(bare.run, place, lane="lexical")),
            sizes=await database.sizes(),
            memory=proportional_mb(self.postgres.pid),
        )
        self.points.append(point)
        self.note(f"{chunks} chunks measured")

    def show_curve(self) -> None:
        points = sorted(self.points, key=lambda point: point.chunks)
        self.tell("\n" + curve_table(points))
        if (docs := self.options.docs) is not None:
            (docs / "search-cost.svg").write_text(curve_svg(panels(points)), "utf-8")
            page = docs / "benchmarks.md"
            head = page.read_text("utf-8").partition(FIGURES)[0]
            page.write_text(head + FIGURES + "\n" + "\n".join(self.told) + "\n", "utf-8")
            self.note(f"wrote {page} and its drawing")


def _is(sets: npt.NDArray[np.str_], name: str, documents: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Which of the documents come from the set of this name."""
    found: npt.NDArray[np.bool_] = sets[documents] == name
    return found


def read_options(arguments: Sequence[str]) -> Options:
    parser = argparse.ArgumentParser(prog="make bench NAME=scale", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="100,000 chunks at most; nothing is written")
    parser.add_argument("--queries", type=int, default=40, metavar="N", help="of each kind (default: 40)")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="what is made up is made from it")
    given = parser.parse_args(arguments)
    data = os.environ.get("CARREL_EVAL_DATA")
    if not data:
        print("CARREL_EVAL_DATA is not set: recall on real embeddings is left out", file=sys.stderr)
    return Options(
        seed=given.seed,
        queries=given.queries,
        crowd=HUNDRED if given.quick else MILLION,
        docs=None if given.quick else ROOT / "docs",
        real=read_real(Path(data)) if data else None,
    )


def main(arguments: Sequence[str]) -> int:
    options = read_options(arguments)
    with embedding_endpoint() as endpoint, running_postgres(endpoint) as (postgres, settings):
        run = Run(options, postgres, settings)
        uvloop.run(run.all())  # as the service does
    for one in run.missed:
        run.note(f"missed: {one}")
    return run.exit_code


if __name__ == "__main__":
    end_as_usual()
    sys.exit(main(sys.argv[1:]))
