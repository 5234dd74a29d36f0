"""``make prove NAME=page-boxes``: compare the boxes of chunks with the ink of their words on the images of pages.

The files are a sample, and copies of it whose pages are rotated and cropped. If ``CARREL_EVAL_DATA`` names the
directory of evaluation sets, the PDF files of the torture set are added. All files are uploaded to a running service.
The exit code is 1 if the boxes of one chunk cover less than 95 % of the ink of its words.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pymupdf

from harness.page_ink import InkCount, assign_words, list_words, measure_ink
from harness.processes import exit_on_sigterm, running_service

MIN_SHARE = 0.95
SCALE = 2.0
TIMEOUT_SECONDS = 120
INGESTION_TIMEOUT_SECONDS = 600
SAMPLE = Path("samples/handbook.pdf")
DOCUMENTS = "/v1/knowledge-bases/default/documents"
SETTINGS = {"CARREL_LOG_LEVEL": "error"}


@dataclass(frozen=True, slots=True)
class ChunkInk:
    """Chunk of a file with its ink."""

    chunk_index: int
    ink: InkCount


def write_copies(path: Path, directory: Path) -> Iterator[Path]:
    """Yield copies of a PDF file whose pages are rotated, and copies whose pages are also cropped.

    Args:
        path: The file.
        directory: Directory of the copies.
    """
    fitz: Any = pymupdf
    for rotation in (0, 90, 180, 270):
        for is_cropped in (False, True):
            copy = directory / f"{path.stem}-{rotation}{'-cropped' if is_cropped else ''}.pdf"
            with fitz.open(path) as document:
                for page in document:
                    if is_cropped:
                        page.set_cropbox(fitz.Rect(30, 60, page.rect.width - 40, page.rect.height - 50))
                    page.set_rotation(rotation)
                document.save(copy)
            yield copy


def measure_file(client: httpx2.Client, path: Path) -> list[ChunkInk]:
    """Upload a file and measure the ink of its chunks. A file that cannot be ingested has no chunks.

    Args:
        client: Client of a running service, with an API key.
        path: A PDF file.
    """
    with path.open("rb") as file:
        reply = client.post(DOCUMENTS, params={"wait": 60}, files={"file": (path.name, file)})
    reply.raise_for_status()
    url = f"{DOCUMENTS}/{reply.json()['id']}"
    deadline = time.monotonic() + INGESTION_TIMEOUT_SECONDS
    while client.get(url).raise_for_status().json()["status"] not in ("ready", "failed"):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{path.name} is not ingested after {INGESTION_TIMEOUT_SECONDS} seconds")
        time.sleep(0.5)
    chunks = list(_iter_chunks(client, url))
    pages = {page for chunk in chunks for page in range(chunk["page"], chunk["page_end"] + 1)}
    images = {page: _draw_page(client, url, page) for page in sorted(pages)}
    fitz: Any = pymupdf
    with fitz.open(path) as document:
        assigned = assign_words(chunks, {page: list_words(document, page) for page in images})
    return [
        ChunkInk(chunk["chunk_index"], measure_ink(chunk, assigned[chunk["chunk_index"]], images, SCALE))
        for chunk in chunks
    ]


def _iter_chunks(client: httpx2.Client, url: str) -> Iterator[dict[str, Any]]:
    """Yield the chunks of a document with their boxes."""
    cursor = None
    while True:
        page = client.get(f"{url}/chunks", params={"limit": 200} | ({"cursor": cursor} if cursor else {})).json()
        for item in page["items"]:
            chunk: dict[str, Any] = client.get(f"{url}/chunks/{item['id']}").raise_for_status().json()
            yield chunk
        cursor = page["next_cursor"]
        if cursor is None:
            return


def _draw_page(client: httpx2.Client, url: str, page: int) -> bytes:
    reply = client.get(f"{url}/pages/{page}.png", params={"scale": SCALE})
    return reply.raise_for_status().content


def list_files(directory: Path, name: str) -> list[Path]:
    """Return the files of the proof: those of the torture set, and the copies of the sample.

    Args:
        directory: Directory of the copies.
        name: Part of the names of the files.
    """
    data = os.environ.get("CARREL_EVAL_DATA")
    files = sorted(Path(data, "torture").glob("*.pdf")) if data else []
    return [path for path in (*files, SAMPLE, *write_copies(SAMPLE, directory)) if name in path.name]


def print_file(path: Path, chunks: Sequence[ChunkInk]) -> bool:
    """Print the result of a file, and return whether the boxes of each chunk cover enough ink."""
    inked = [chunk for chunk in chunks if chunk.ink.total]
    lowest = min((chunk.ink.share for chunk in inked), default=1.0)
    words = sum(chunk.ink.words for chunk in chunks)
    aligned = sum(chunk.ink.aligned_words for chunk in chunks)
    print(
        f"{path.name:<40}{len(chunks):>7} chunks{len(inked):>6} with ink{lowest:>9.2%} lowest"
        f"{aligned / words if words else 0:>9.1%} of the words found"
    )
    for chunk in inked:
        if chunk.ink.share < MIN_SHARE:
            print(f"  chunk {chunk.chunk_index}: {chunk.ink.share:.2%} of {chunk.ink.total} pixels")
    return lowest >= MIN_SHARE


def main() -> int:
    """Run the proof. Return 1 if the boxes of a chunk cover too little ink, else 0."""
    parser = argparse.ArgumentParser(prog="make prove NAME=page-boxes", description=__doc__.split(": ", 1)[1])
    parser.add_argument("--name", default="", help="part of the names of the files; all files without it")
    provided = parser.parse_args()
    exit_on_sigterm()
    with tempfile.TemporaryDirectory() as directory, running_service(None, settings=SETTINGS) as service:
        headers = {"Authorization": f"Bearer {service.key}"}
        with httpx2.Client(base_url=service.url, headers=headers, timeout=TIMEOUT_SECONDS) as client:
            results = [
                print_file(path, measure_file(client, path)) for path in list_files(Path(directory), provided.name)
            ]
    return int(not all(results))


if __name__ == "__main__":
    sys.exit(main())
