"""``make bench NAME=checkouts``: compare the speed of this checkout and another one in alternating rounds.

Both services run at the same time, each with its own Postgres and a fast embedding endpoint. Only one of them is used
at a time: each round measures both, and the order changes with every round. Searches come first, then small documents.
``--other`` names the other checkout, which needs a virtual environment in ``.venv``. The benchmark prints the medians
of the rounds and their ratio.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import httpx2

from benchmarks.search import Vocabulary, fill_knowledge_base, measure_times
from harness.processes import RunningService, embedding_endpoint, exit_on_sigterm, running_service, wait_until_ingested

ROUNDS, SEARCHES, WARM_UP, TEXTS, WORDS = 8, 150, 60, 30, 1400


class MeasuredCheckout:
    """Service of one checkout and its measured values by name."""

    def __init__(self, name: str, service: RunningService, client: httpx2.Client) -> None:
        self.name = name
        self.service = service
        self.client = client
        self.figures: dict[str, list[float]] = {}

    def search(self, query: str) -> None:
        """Send one search. An error ends the benchmark."""
        self.client.post("/v1/knowledge-bases/bench/search", json={"query": query}).raise_for_status()

    def measure_searches(self, queries: Sequence[str]) -> None:
        """Record the median time of the queries and the CPU time of the service's processes."""
        before = self.service.measure_cpu()
        times = measure_times(self.search, queries)
        spent = self.service.measure_cpu() - before
        self._add("search, ms, median", statistics.median(times))
        self._add("search, ms of Carrel's CPU", spent.carrel / len(queries) * 1000)
        self._add("search, ms of Postgres' CPU", spent.postgres / len(queries) * 1000)

    def measure_ingestion(self, texts: Sequence[str]) -> None:
        """Record the time from the first upload until all texts are ingested, and the CPU time."""
        before, started = self.service.measure_cpu(), time.perf_counter()
        for text in texts:
            self.client.post("/v1/knowledge-bases/texts/documents", json={"text": text}).raise_for_status()
        wait_until_ingested(self.client, "texts")
        spent = self.service.measure_cpu() - before
        self._add("small document, ms", (time.perf_counter() - started) / len(texts) * 1000)
        self._add("small document, ms of Carrel's CPU", spent.carrel / len(texts) * 1000)
        self._add("small document, ms of Postgres' CPU", spent.postgres / len(texts) * 1000)

    def _add(self, name: str, value: float) -> None:
        self.figures.setdefault(name, []).append(value)


def measure_in_turns(sides: Sequence[MeasuredCheckout], measure: Callable[[MeasuredCheckout], None]) -> None:
    """Measure both sides in every round. The side that begins alternates."""
    for number in range(ROUNDS):
        for side in sides if number % 2 else sides[::-1]:
            measure(side)


def show(sides: Sequence[MeasuredCheckout]) -> None:
    """Print a table with a row for each measured value."""
    print(
        f"\n| medians of {ROUNDS} rounds | {' | '.join(side.name for side in sides)} | ratio |"
        "\n| --- | --- | --- | --- |"
    )
    for name in sides[0].figures:
        other, own = (statistics.median(side.figures[name]) for side in sides)
        print(f"| {name} | {other:.2f} | {own:.2f} | {own / other:.2f} |")


def main(arguments: Sequence[str]) -> None:
    """Fill both services with the same generated texts and measure them in alternating rounds."""
    parser = argparse.ArgumentParser(prog="make bench NAME=checkouts", description=__doc__)
    parser.add_argument("--other", required=True, type=Path, help="folder of the other checkout, with its .venv")
    parser.add_argument(
        "--other-settings", nargs="*", default=[], metavar="NAME=VALUE", help="settings of the other checkout's service"
    )
    options = parser.parse_args(arguments)
    settings = dict(item.split("=", 1) for item in options.other_settings)
    with (
        embedding_endpoint() as url,
        running_service(url, settings=settings, root=options.other.resolve()) as other,
        running_service(url) as own,
        other.create_client() as other_client,
        own.create_client() as own_client,
    ):
        sides = [MeasuredCheckout("the other", other, other_client), MeasuredCheckout("this one", own, own_client)]
        for side in sides:
            print(f"{side.name}: {fill_knowledge_base(side.service, Vocabulary(1))} chunks")
            side.client.post("/v1/knowledge-bases", json={"name": "texts"}).raise_for_status()
            measure_times(side.search, [Vocabulary(2).generate_query() for _ in range(WARM_UP)])
        words = {side.name: Vocabulary(3) for side in sides}
        measure_in_turns(
            sides, lambda side: side.measure_searches([words[side.name].generate_query() for _ in range(SEARCHES)])
        )
        measure_in_turns(
            sides, lambda side: side.measure_ingestion([words[side.name].generate_text(WORDS) for _ in range(TEXTS)])
        )
        show(sides)


if __name__ == "__main__":
    exit_on_sigterm()
    main(sys.argv[1:])
