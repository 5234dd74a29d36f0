"""``make bench NAME=pdf-models``: compare the local models on a PDF: time, CPU and search results.

``CARREL_EVAL_DATA`` names the directory of evaluation sets. The arguments are PDF files, which are merged to one; by
default a book of 117 pages. A service with each model runs twice, in alternation; the times are medians. Every section
title of the document is a query. "Own section" is the share of queries whose five results include a chunk of that
section. "Same top five" is the overlap with the results of the first model.
"""

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx2
import pymupdf

from app.cli.runtime_state import read_credentials

ROUNDS = 2
TOP_K = 5
MODELS = (("all-MiniLM-L6-v2", "fp32"), ("bge-small-en-v1.5", "int8"), ("all-MiniLM-L6-v2", "int8"))


def main(arguments: Sequence[str]) -> int:
    provided = os.environ.get("CARREL_EVAL_DATA")
    if not provided and not arguments:
        print("Set CARREL_EVAL_DATA to the directory of evaluation sets, or name PDF files.")
        return 2
    files = [Path(name) for name in arguments] or [Path(provided or "") / "torture" / "GeoTopo-komprimiert.pdf"]
    runs: dict[tuple[str, str], list[dict[str, Any]]] = {model: [] for model in MODELS}
    with tempfile.TemporaryDirectory(prefix="carrel-bench-") as folder:
        pdf = merge_files(files, Path(folder) / "whole.pdf")
        for _ in range(ROUNDS):
            for model, done in runs.items():
                done.append(run(pdf, *model))
    print("model                      seconds to searchable   CPU s of the worker   own section   same top five")
    baseline = runs[MODELS[0]][0]["found"]
    for model, done in runs.items():
        elapsed, cpu = (statistics.median(item[name] for item in done) for name in ("wall", "cpu"))
        same = statistics.mean(len(a & b) / TOP_K for a, b in zip(baseline, done[0]["found"], strict=True))
        name = f"{model[0]} {model[1]}"
        print(f"{name:25}   {elapsed:20.1f}   {cpu:19.1f}   {done[0]['own']:11.3f}   {same:13.3f}")
    print(f"{len(baseline)} queries, {runs[MODELS[0]][0]['pages']} pages")
    return 0


def merge_files(files: Sequence[Path], target: Path) -> Path:
    """Write the pages of all files to one file. A single file is returned as it is."""
    if len(files) == 1:
        return files[0]
    with pymupdf.open() as whole:  # type: ignore[no-untyped-call]  # PyMuPDF ships no types
        for file in files:
            with pymupdf.open(file) as document:  # type: ignore[no-untyped-call]
                whole.insert_pdf(document)
        whole.save(target)
    return target


def run(pdf: Path, model: str, precision: str) -> dict[str, Any]:
    """Start a service on an empty data directory, ingest the PDF, search, and stop the service."""
    with tempfile.TemporaryDirectory(prefix="carrel-bench-") as folder:
        data = Path(folder)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("CARREL_")}
        environment |= {"CARREL_EMBEDDING_MODEL": model, "CARREL_EMBEDDING_PRECISION": precision}
        command = [sys.executable, "-m", "app.cli", "serve", "--port", "0", "--data-dir", str(data)]
        with (data / "log").open("wb") as log:
            process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
            try:
                return measure(wait_for_client(data), process.pid, pdf)
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait(60)


def wait_for_client(data: Path) -> httpx2.Client:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        credentials = read_credentials(data)
        if credentials is not None:
            client = httpx2.Client(
                base_url=credentials.url, headers={"Authorization": f"Bearer {credentials.api_key}"}, timeout=120
            )
            try:
                if client.get("/readyz").status_code == 200 and "worker.started" in (data / "log").read_text():
                    return client
            except httpx2.TransportError:
                pass
        time.sleep(0.1)
    raise TimeoutError("the service is not ready 60 s after its start")


def measure(client: httpx2.Client, pid: int, pdf: Path) -> dict[str, Any]:
    before, begun = measure_children_cpu(pid), time.monotonic()
    base = "/v1/knowledge-bases/default/documents"
    with pdf.open("rb") as file:
        document = client.post(base, params={"wait": 60}, files={"file": (pdf.name, file)}).raise_for_status().json()
    while document["status"] not in ("ready", "failed"):
        time.sleep(0.05)
        document = client.get(f"{base}/{document['id']}").json()
    assert document["status"] == "ready", document["error"]
    boundary, cpu = time.monotonic() - begun, measure_children_cpu(pid) - before
    titles = list_section_titles(client, f"{base}/{document['id']}/chunks")
    matches, own = [], 0
    for title in titles:
        body = {"query": title, "top_k": TOP_K, "strategy": "dense"}
        results = client.post("/v1/search", json=body).raise_for_status().json()["results"]
        own += any(title in result["section_titles"] for result in results)
        matches.append({result["chunk_index"] for result in results})
    client.close()
    return {"wall": boundary, "cpu": cpu, "own": own / len(titles), "found": matches, "pages": document["page_count"]}


def list_section_titles(client: httpx2.Client, url: str) -> list[str]:
    titles: dict[str, None] = {}
    cursor = None
    while True:
        page = client.get(url, params={"limit": 200, **({"cursor": cursor} if cursor else {})}).json()
        titles.update((chunk["section_titles"][-1], None) for chunk in page["items"] if chunk["section_titles"])
        cursor = page["next_cursor"]
        if cursor is None:
            return list(titles)


def measure_children_cpu(pid: int) -> float:
    """Return the CPU seconds of all descendants of a process except Postgres. The process itself does not count."""
    processes: dict[int, tuple[int, str, float]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                name, _, remainder = (entry / "stat").read_text().partition("(")[2].rpartition(")")
            except OSError:
                continue
            fields = remainder.split()
            ticks = sum(map(int, fields[11:15]))
            processes[int(entry.name)] = (int(fields[1]), name, ticks / os.sysconf("SC_CLK_TCK"))

    def measure_below(parent: int) -> float:
        mine = [(child, info) for child, info in processes.items() if info[0] == parent and info[1] != "postgres"]
        return sum(info[2] + measure_below(child) for child, info in mine)

    return measure_below(pid)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
