"""``make bench NAME=run``: measure ingestion and search, each with a baseline from the same run.

``CARREL_EVAL_DATA`` names the directory of evaluation sets. The embedding endpoint is a separate process that takes
almost no time. A plugin measures the CPU time of its client in the service, and the tables show that time separately.
"Without a model" means that the vector of the query is cached.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.ingestion import IngestionFigures, measure_bare_extraction, measure_ingestion
from benchmarks.metered_embedder import metered_settings
from benchmarks.search import SearchFigures, Vocabulary, fill_knowledge_base, measure_search
from harness.processes import embedding_endpoint, exit_on_sigterm, running_service

PDF = Path("torture") / "GeoTopo-komprimiert.pdf"
UPLOADS = (1, 4, 16)
# Target of the CPU time of a search, and the time of an empty request on the machine on which the target was set.
MAX_CPU_MS, REFERENCE_EMPTY_MS = 3.0, 0.07


def show_ingestion(figures: Sequence[IngestionFigures], bare: float) -> None:
    print("\n| uploads at once | pages/s | pages per CPU-second, Carrel | Postgres | share of PyMuPDF alone |")
    print("| --- | --- | --- | --- | --- |")
    for item in figures:
        share = item.carrel_cpu / bare
        print(
            f"| {item.uploads} | {item.elapsed:.1f} | {item.carrel_cpu:.1f} | {item.postgres_cpu:.0f} | {share:.0%} |"
        )
    print(f"\nPyMuPDF alone, text only, one process: {bare:.0f} pages/s; {figures[0].pages} pages a file")
    print(f"4 uploads over 1: {figures[1].elapsed / figures[0].elapsed:.2f}x (target: 1.6x)")
    print(f"pages per CPU-second: {figures[0].carrel_cpu:.0f} (target: 150, and 30 % of PyMuPDF)")


def show_search(figures: SearchFigures, chunks: int) -> None:
    print(f"\nhybrid search, {chunks} chunks, distinct queries, ms a search:")
    print("\n| | server CPU | Postgres CPU | p50 |\n| --- | --- | --- | --- |")
    print(f"| with a model | {figures.server_cpu:.2f} | {figures.postgres_cpu:.2f} | {figures.search_p50:.2f} |")
    print(f"| part of it in the embedder | {figures.embedder_cpu:.2f} | | |")
    print(f"| without a model: the same queries again | {figures.cached_cpu:.2f} | | {figures.cached_p50:.2f} |")
    print(f"| part of it in the service, without HTTP | | | {figures.cached_inside:.2f} |")
    print(f"| bare SQL of the retrievers | | | {figures.sql_p50:.2f} |")
    print(f"| bare SQL with five cosines, as the service asks for | | | {figures.sql_for_five_p50:.2f} |")
    print(f"| a request to uvicorn alone | {figures.empty_cpu:.3f} | | {figures.empty_p50:.2f} |")
    minimum = f"{figures.cpu_without_model / figures.empty_cpu:.0f} requests to uvicorn alone"
    print(f"\nserver CPU without the model: {figures.cpu_without_model:.2f} ms (target: {MAX_CPU_MS:.0f}), {minimum}")
    print(
        f"(target: {MAX_CPU_MS / REFERENCE_EMPTY_MS:.0f}, if such a request takes {REFERENCE_EMPTY_MS} ms as on the "
        f"machine on which the target was set)"
    )
    print("\n| p50 without a model over | in the service | over HTTP | target |\n| --- | --- | --- | --- |")
    for name, bare in (("bare SQL", figures.sql_p50), ("bare SQL with five cosines", figures.sql_for_five_p50)):
        print(f"| {name} | {figures.cached_inside / bare:.2f}x | {figures.cached_p50 / bare:.2f}x | 1.5x |")


def main() -> int:
    data = os.environ.get("CARREL_EVAL_DATA")
    if not data or not (Path(data) / PDF).is_file():
        sys.stderr.write(f"Set CARREL_EVAL_DATA to a directory with {PDF}.\n")
        return 2
    pdf, vocabulary = Path(data) / PDF, Vocabulary(seed=1)
    with (
        embedding_endpoint() as embedding_url,
        metered_settings() as (settings, meter),
        running_service(embedding_url, settings=settings) as service,
    ):
        pages, bare = measure_bare_extraction(pdf)
        measure_ingestion(service, pdf, pages=pages, uploads=1)  # warms up the parsers
        show_ingestion([measure_ingestion(service, pdf, pages=pages, uploads=number) for number in UPLOADS], bare)
        chunks = fill_knowledge_base(service, vocabulary)
        show_search(measure_search(service, meter, vocabulary), chunks)
        peaks = service.measure_peaks_mb()
    print("\npeak memory, MB: " + ", ".join(f"{name} {size:.0f}" for name, size in peaks.items()), end=" ")
    print("(target: API 300, worker 500)")
    return 0


if __name__ == "__main__":
    exit_on_sigterm()
    sys.exit(main())
