"""``make bench NAME=load``: measure small texts, large uploads, books, and searches during ingestion.

``CARREL_EVAL_DATA`` names the directory of evaluation sets. The PDFs hold real text: a seeded random generator cuts
their pages from the evaluation set chroma-dev.
"""

import json
import os
import random
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pymupdf

from benchmarks.search import Vocabulary, fill_knowledge_base
from harness.processes import RunningService, embedding_endpoint, exit_on_sigterm, running_service, wait_until_ingested

TEXT_BYTES, TEXTS = 9 * 1024, 96
BIG_BYTES = 500 * 1024 * 1024
BOOK_PAGES, LOAD_PAGES, LOAD_FILES = 2000, 224, 4
PIECE_BYTES = 1024 * 1024
DOCUMENTS = "/v1/knowledge-bases/default/documents"


def read_real_text(data: Path) -> str:
    """Return the text of all documents of chroma-dev, joined by line breaks."""
    lines = (data / "chroma-dev" / "corpus.jsonl").read_text("utf-8").split("\n")
    return "\n".join(json.loads(line)["text"] for line in lines if line)


def write_pdf(path: Path, text: str, *, pages: int, seed: int) -> None:
    """Write a PDF whose pages each hold 2,500 characters of the text, from random positions."""
    rng = random.Random(seed)
    plain = text.encode("latin-1", "replace").decode("latin-1")
    document: Any = pymupdf.open()  # type: ignore[no-untyped-call]  # PyMuPDF ships no types
    for number in range(pages):
        start = rng.randrange(len(plain) - 2500)
        page = document.new_page()
        page.insert_text((72, 50), f"Chapter {number // 10 + 1}", fontsize=15)
        page.insert_textbox((72, 70, 540, 800), plain[start : start + 2500], fontsize=9)
    document.save(path, deflate=True, no_new_id=True)
    document.close()


def wait_until_ready(client: httpx2.Client, document: dict[str, object], *, seconds: float) -> dict[str, object]:
    """Wait until a document is ready and return its last state. A failure or a timeout is an error."""
    end = time.monotonic() + seconds
    while document["status"] not in ("ready", "failed") and time.monotonic() < end:
        time.sleep(0.1)
        document = client.get(f"{DOCUMENTS}/{document['id']}").json()
    if document["status"] != "ready":
        raise RuntimeError(f"{document['source']}: {document['status']}, {document['error']}")
    return document


def show_texts(service: RunningService, text: str) -> None:
    """Measure small text files and print the rate, the CPU time and the time until a text is searchable."""
    rng = random.Random(2)
    print(f"\n{TEXTS} text files of {TEXT_BYTES // 1024} KB:\n")
    print("| uploads at once | files/s | server CPU ms a file | upload until searchable p50 / p95 ms |")
    print("| --- | --- | --- | --- |")
    for number, uploads in enumerate((4, 1, 4, 16)):  # the first round is a warm-up
        starts = [rng.randrange(len(text) - TEXT_BYTES) for _ in range(TEXTS)]
        bodies = [text[start : start + TEXT_BYTES].encode()[:TEXT_BYTES] for start in starts]
        with service.create_client() as client, ThreadPoolExecutor(uploads) as pool:
            before, begun = service.measure_cpu(), time.perf_counter()
            took = list(pool.map(lambda body: _upload_text(client, body), bodies))
            elapsed, spent = time.perf_counter() - begun, service.measure_cpu() - before
        if number == 0:
            continue
        milliseconds = sorted(1000 * item for item in took)
        p50, p95 = statistics.median(milliseconds), milliseconds[int(0.95 * len(milliseconds))]
        print(f"| {uploads} | {TEXTS / elapsed:.1f} | {1000 * spent.carrel / TEXTS:.1f} | {p50:.0f} / {p95:.0f} |")


def _upload_text(client: httpx2.Client, body: bytes) -> float:
    begun = time.perf_counter()
    reply = client.post(DOCUMENTS, params={"wait": 60}, files={"file": ("a.txt", body)})
    reply.raise_for_status()
    if reply.status_code == 202:
        raise RuntimeError("a text is not ready one minute after its upload")
    return time.perf_counter() - begun


def show_big_upload(service: RunningService) -> None:
    """Upload 500 MB and print the API's peak memory. The file is refused at its end: no parser reads random bytes."""
    before = service.measure_peaks_mb()["API"]

    def stream_body() -> Iterator[bytes]:
        yield b'--b\r\nContent-Disposition: form-data; name="file"; filename="big.txt"\r\n\r\n'
        piece = os.urandom(PIECE_BYTES)
        for _ in range(BIG_BYTES // PIECE_BYTES - 1):
            yield piece
        yield b"\r\n--b--\r\n"

    with service.create_client() as client:
        begun = time.perf_counter()
        headers = {"Content-Type": "multipart/form-data; boundary=b"}
        reply = client.post(DOCUMENTS, content=stream_body(), headers=headers)
    elapsed, after = time.perf_counter() - begun, service.measure_peaks_mb()["API"]
    if reply.status_code != 415:
        raise RuntimeError(f"the upload of random bytes returned status {reply.status_code} instead of 415")
    print(f"\na 500 MB upload: {BIG_BYTES / PIECE_BYTES / elapsed:.0f} MB/s; API peak {before:.0f} → {after:.0f} MB")


def show_book(service: RunningService, text: str, folder: Path) -> None:
    """Ingest a PDF of 2,000 pages and print the time and the peak memory."""
    path = folder / "book.pdf"
    write_pdf(path, text, pages=BOOK_PAGES, seed=3)
    begun = time.perf_counter()
    with service.create_client() as client, path.open("rb") as file:
        reply = client.post(DOCUMENTS, files={"file": (path.name, file)})
        reply.raise_for_status()
        created = wait_until_ready(client, reply.json(), seconds=900)
    elapsed, peaks = time.perf_counter() - begun, service.measure_peaks_mb()
    print(
        f"\na PDF of {BOOK_PAGES} pages: {created['chunk_count']} chunks in {elapsed:.0f} s; peak memory: worker "
        f"{peaks['worker']:.0f} MB (target: 500), parser {peaks['parser']:.0f} MB"
    )


@dataclass(frozen=True, slots=True)
class LoadLatency:
    """Sorted milliseconds of searches and of health checks."""

    search_ms: Sequence[float]
    health_ms: Sequence[float]

    def format_row(self, name: str) -> str:
        p99 = [item[int(0.99 * len(item))] for item in (self.search_ms, self.health_ms)]
        p50 = [statistics.median(item) for item in (self.search_ms, self.health_ms)]
        return f"| {name} | {p50[0]:.1f} / {p99[0]:.1f} | {p50[1]:.1f} / {p99[1]:.1f} | {len(self.search_ms)} |"


def measure_latency(
    service: RunningService, vocabulary: Vocabulary, until: threading.Event, *, min_searches: int
) -> LoadLatency:
    """Send searches and health checks in turn until the event is set, and at least ``min_searches`` times."""
    searches: list[float] = []
    health: list[float] = []
    with service.create_client() as client:
        while not until.is_set() or len(searches) < min_searches:
            begun = time.perf_counter()
            result = client.post("/v1/knowledge-bases/bench/search", json={"query": vocabulary.generate_query()})
            searches.append(1000 * (time.perf_counter() - begun))
            result.raise_for_status()
            begun = time.perf_counter()
            client.get("/healthz").raise_for_status()
            health.append(1000 * (time.perf_counter() - begun))
            time.sleep(0.02)
    return LoadLatency(sorted(searches), sorted(health))


def show_load(service: RunningService, text: str, folder: Path, vocabulary: Vocabulary) -> None:
    """Measure searches and health checks without load and during the ingestion of large PDFs, and print both."""
    fill_knowledge_base(service, vocabulary)
    done = threading.Event()
    done.set()
    measure_latency(service, vocabulary, done, min_searches=50)
    idle = measure_latency(service, vocabulary, done, min_searches=300)
    done.clear()
    with ThreadPoolExecutor(1) as pool:
        busy = pool.submit(measure_latency, service, vocabulary, done, min_searches=50)
        with service.create_client() as client:
            for number in range(LOAD_FILES):
                path = folder / f"load-{number}.pdf"
                write_pdf(path, text, pages=LOAD_PAGES, seed=10 + number)
                with path.open("rb") as file:
                    client.post(DOCUMENTS, files={"file": (path.name, file)}).raise_for_status()
            wait_until_ingested(client, "default")
        done.set()
        felt = busy.result()
    print(f"\nduring the ingestion of {LOAD_FILES} PDFs of {LOAD_PAGES} pages, p50 / p99 ms:\n")
    print("| | search | health | searches |\n| --- | --- | --- | --- |")
    print(idle.format_row("idle"))
    print(felt.format_row("busy"))
    ratio = felt.search_ms[int(0.99 * len(felt.search_ms))] / idle.search_ms[int(0.99 * len(idle.search_ms))]
    print(f"\nsearch p99 over idle: {ratio:.1f}x (target: 3x); target of health p99: 50 ms")


def main() -> int:
    data = Path(os.environ.get("CARREL_EVAL_DATA") or "missing")
    if not (data / "chroma-dev" / "corpus.jsonl").is_file():
        sys.stderr.write("Set CARREL_EVAL_DATA to a directory with chroma-dev/corpus.jsonl.\n")
        return 2
    text, vocabulary = read_real_text(data), Vocabulary(seed=1)
    with (
        tempfile.TemporaryDirectory(prefix="carrel-bench-") as name,
        embedding_endpoint() as embedding_url,
        running_service(embedding_url) as service,
    ):
        folder = Path(name)
        show_texts(service, text)
        show_big_upload(service)
        show_load(service, text, folder, vocabulary)
        show_book(service, text, folder)
        peaks = service.measure_peaks_mb()
    print("\npeak memory, MB: " + ", ".join(f"{part} {size:.0f}" for part, size in peaks.items()))
    return 0


if __name__ == "__main__":
    exit_on_sigterm()
    sys.exit(main())
