"""``make bench NAME=page-images``: times of page images, not cached and cached, over HTTP.

``CARREL_EVAL_DATA`` names the directory of evaluation sets. Each page of its PDF files is requested twice at scale 1.5:
the first request draws the page. A third request has ``If-None-Match``. The baseline is an empty request.
"""

import os
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx2

from harness.processes import embedding_endpoint, exit_on_sigterm, running_service

SCALE = 1.5
MAX_PAGES = 40  # of each file, evenly spread
ROUTE = "/v1/knowledge-bases/default/documents"
TARGET_P95_MS = 150


def main() -> int:
    data = os.environ.get("CARREL_EVAL_DATA")
    if not data:
        print("Set CARREL_EVAL_DATA to the directory of evaluation sets.")
        return 2
    files = [*sorted((Path(data) / "filings-dev").glob("*.pdf")), *sorted((Path(data) / "torture").glob("*.pdf"))]
    settings = {"PARSE_TIMEOUT_SECONDS": "300"}
    with embedding_endpoint() as endpoint, running_service(endpoint, settings=settings) as service:
        headers = {"Authorization": f"Bearer {service.key}"}
        with httpx2.Client(base_url=service.url, headers=headers, timeout=120) as client:
            times = measure_files(client, files)
    print("\n| request | requests | p50 ms | p95 ms | longest ms |\n| --- | --- | --- | --- | --- |")
    for name, milliseconds in times.items():
        print(f"| {name} | {len(milliseconds)} | {describe_times(milliseconds)} |")
    print(f"\ntarget of the p95 of a page that is not cached: {TARGET_P95_MS} ms")
    return 0


def measure_files(client: httpx2.Client, files: Sequence[Path]) -> dict[str, list[float]]:
    """Request the pages of all files and return the milliseconds of each kind of request."""
    times: dict[str, list[float]] = defaultdict(list)
    for file in files:
        document = upload(client, file)
        if document["status"] != "ready" or not document["page_count"]:
            print(f"{file.name}: {document['status']}, without pages")
            continue
        pages = choose_pages(document["page_count"])
        drawn = []
        for page in pages:
            url = f"{ROUTE}/{document['id']}/pages/{page}.png"
            tag, took = request_page(client, url, "")
            drawn.append(took)
            times["not cached"].append(took)
            times["cached"].append(request_page(client, url, "")[1])
            times["If-None-Match (304)"].append(request_page(client, url, tag)[1])
            times["baseline: GET /healthz"].append(request_page(client, "/healthz", "")[1])
        print(f"{file.name}: {len(pages)} pages, not cached: {describe_times(drawn)}")
    return times


def upload(client: httpx2.Client, file: Path) -> dict[str, Any]:
    """Upload a file, wait until it is ingested or failed, and return the document."""
    with file.open("rb") as content:
        reply = client.post(ROUTE, params={"wait": 60}, files={"file": (file.name, content, "application/pdf")})
    document: dict[str, Any] = reply.raise_for_status().json()
    while document["status"] not in ("ready", "failed"):
        time.sleep(1)
        document = client.get(f"{ROUTE}/{document['id']}").raise_for_status().json()
    return document


def choose_pages(count: int) -> list[int]:
    """Return at most ``MAX_PAGES`` page numbers, evenly spread over a document."""
    step = max(1, count / MAX_PAGES)
    return [1 + int(index * step) for index in range(min(count, MAX_PAGES))]


def request_page(client: httpx2.Client, url: str, tag: str) -> tuple[str, float]:
    """Request an image and return its entity tag and the milliseconds."""
    headers = {"If-None-Match": tag} if tag else {}
    params = {"scale": SCALE} if url.endswith(".png") else {}
    started = time.perf_counter()
    reply = client.get(url, params=params, headers=headers)
    took = (time.perf_counter() - started) * 1000
    if reply.status_code != (304 if tag else 200):
        raise RuntimeError(f"{url}: {reply.status_code} {reply.text[:200]}")
    return reply.headers.get("etag", ""), took


def describe_times(milliseconds: Sequence[float]) -> str:
    """Return the median, the 95th percentile and the maximum as cells of a table."""
    p95 = statistics.quantiles(milliseconds, n=20)[-1] if len(milliseconds) > 1 else milliseconds[0]
    return f"{statistics.median(milliseconds):.1f} | {p95:.1f} | {max(milliseconds):.1f}"


if __name__ == "__main__":
    exit_on_sigterm()
    sys.exit(main())
