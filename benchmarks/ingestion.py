"""Measurement of ingestion: PDF pages a second from upload to searchable, compared with PyMuPDF alone."""

import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import httpx2

from harness.processes import RunningService

ROUNDS = 3
UPLOAD_TIMEOUT_SECONDS = 110
# Runs in a separate process, as the parsers do. It prints the pages and the shortest of three times.
BARE_EXTRACTION_SCRIPT = """
import sys, time, pymupdf
best = float("inf")
for _ in range(3):
    started = time.perf_counter()
    with pymupdf.open(sys.argv[1]) as document:
        pages = len(document)
        for page in document:
            page.get_text()
    best = min(best, time.perf_counter() - started)
print(pages, best)
"""


@dataclass(frozen=True, slots=True)
class IngestionFigures:
    """Pages a second of elapsed time, of CPU time of Carrel's processes and of CPU time of Postgres."""

    pages: int
    uploads: int
    elapsed: float
    carrel_cpu: float
    postgres_cpu: float


def measure_bare_extraction(pdf: Path) -> tuple[int, float]:
    """Return the pages of a PDF, and the pages a second that PyMuPDF reads in one process."""
    done = subprocess.run(
        [sys.executable, "-c", BARE_EXTRACTION_SCRIPT, str(pdf)],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    pages, seconds = done.stdout.split()
    return int(pages), int(pages) / float(seconds)


def measure_ingestion(service: RunningService, pdf: Path, *, pages: int, uploads: int) -> IngestionFigures:
    """Return the medians of several rounds. A round uploads ``uploads`` copies at once, each as a separate document."""
    with service.create_client() as client:
        rounds = [_measure_round(service, client, pdf, pages * uploads, uploads, number) for number in range(ROUNDS)]
    elapsed, carrel, postgres = (statistics.median(column) for column in zip(*rounds, strict=True))
    return IngestionFigures(pages, uploads, elapsed, carrel, postgres)


def _measure_round(
    service: RunningService, client: httpx2.Client, pdf: Path, pages: int, uploads: int, number: int
) -> tuple[float, float, float]:
    before, started = service.measure_cpu(), time.perf_counter()
    names = [f"{uploads}-{number}-{copy}" for copy in range(uploads)]
    with ThreadPoolExecutor(uploads) as pool:
        documents = list(pool.map(lambda name: _upload(client, pdf, name), names))
    elapsed, spent = time.perf_counter() - started, service.measure_cpu() - before
    for document in documents:
        client.delete(f"/v1/knowledge-bases/default/documents/{document}").raise_for_status()
    return pages / elapsed, pages / spent.carrel, pages / max(spent.postgres, 0.01)


def _upload(client: httpx2.Client, pdf: Path, name: str) -> str:
    """Upload one copy, wait until it is searchable, and return its id."""
    url = "/v1/knowledge-bases/default/documents"
    with pdf.open("rb") as file:
        files = {"file": (pdf.name, file, "application/pdf")}
        reply = client.post(url, params={"wait": 60}, files=files, data={"external_id": name})
    reply.raise_for_status()
    document = reply.json()
    end = time.monotonic() + UPLOAD_TIMEOUT_SECONDS
    while document["status"] not in ("ready", "failed") and time.monotonic() < end:
        time.sleep(0.05)
        document = client.get(f"{url}/{document['id']}").json()
    if document["status"] != "ready":
        raise RuntimeError(f"{pdf.name} was not ingested: {document['status']}, {document['error']}")
    return str(document["id"])
