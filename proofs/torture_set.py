"""Check of the torture set: each file is uploaded, and the text of its chunks is compared with a manifest."""

import json
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pymupdf

MIN_RIGHT_FILES = 22
COLUMNS_FILE = "multicolumn.pdf"
WAIT_SECONDS = 60

Entry = dict[str, Any]


@dataclass(frozen=True, slots=True)
class FileOutcome:
    """Result of one file. ``faults`` lists the differences from the manifest and is empty if there are none."""

    file: str
    result: str
    faults: str
    is_required: bool


def normalize_text(text: str) -> str:
    """Normalize a text for comparison: NFKC, without white space and soft hyphens."""
    stored = unicodedata.normalize("NFKC", text)
    return "".join(char for char in stored if not char.isspace() and char != "\u00ad")


def read_text(client: httpx2.Client, kb: str, document: str) -> str:
    """Join the chunks of a document to one text with section titles.

    Overlapping text is taken once. Titles are added because a heading with only subheadings is in no chunk's text, but
    in the ``section_titles`` of the chunks.
    """
    url, text, cursor = f"/v1/knowledge-bases/{kb}/documents/{document}/chunks", "", None
    end, above = 0, list[str]()
    while True:
        reply = client.get(url, params={"limit": 200} | ({"cursor": cursor} if cursor else {}))
        reply.raise_for_status()
        page = reply.json()
        for chunk in page["items"]:
            text += "".join(f"\n{title}\n" for title in chunk["section_titles"] if title not in above)
            text += "\n" * (chunk["start"] > end) + chunk["text"][max(0, end - chunk["start"]) :]
            above = chunk["section_titles"]
            end = max(end, chunk["end"])
        cursor = page["next_cursor"]
        if cursor is None:
            return text


def find_out_of_order(text: str, wanted: Sequence[str]) -> str:
    """Return the first wanted text that does not follow the one before it, or an empty string."""
    squeezed_text, position = normalize_text(text), 0
    for item in wanted:
        part = normalize_text(item)
        result = squeezed_text.find(part, position)
        if result < 0:
            return item
        position = result + len(part)
    return ""


def iter_column_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a two-column PDF in reading order: for each page the left column, then the right one.

    The last word of a line is dropped, because it can be hyphenated. Lines across the middle are in neither column.
    """
    with pymupdf.open(path) as document:  # type: ignore[no-untyped-call]  # PyMuPDF ships no types
        for page in document:
            middle = page.rect.width / 2
            lines = [
                (line["bbox"], " ".join(span["text"] for span in line["spans"]).split()[:-1])
                for block in page.get_text("dict")["blocks"]
                for line in block.get("lines", ())
            ]
            tall = [(box, words) for box, words in lines if len(words) > 1]
            if any(box[0] < middle < box[2] - 20 for box, _ in tall[5:]):
                continue  # a table over the whole width
            yield from (" ".join(words) for box, words in tall if box[2] < middle + 20)
            yield from (" ".join(words) for box, words in tall if box[0] >= middle)


def find_faults(entry: Entry, path: Path, text: str) -> str:
    """Return the differences from ``has``, ``hasnot`` and ``order``; for the two-column file also from its columns."""
    there = normalize_text(text)
    lacking = [f"lacks {item!r}" for item in entry.get("has", ()) if normalize_text(item) not in there]
    lacking += [f"has {item!r}" for item in entry.get("hasnot", ()) if normalize_text(item) in there]
    if wrong := find_out_of_order(text, entry.get("order", ())):
        lacking.append(f"{wrong!r} is not in order")
    if path.name == COLUMNS_FILE and (wrong := find_out_of_order(text, list(iter_column_lines(path)))):
        lacking.append(f"columns: {wrong!r} is not in order")
    return "; ".join(lacking)


def check_file(entry: Entry, path: Path, client: httpx2.Client, kb: str) -> FileOutcome:
    """Upload one file, wait for its ingestion, and compare the result with the manifest."""
    url = f"/v1/knowledge-bases/{kb}/documents"
    reply = client.post(url, params={"wait": WAIT_SECONDS}, files={"file": (path.name, path.read_bytes())})
    body, must = reply.json(), bool(entry.get("fail") or entry.get("empty"))
    if not reply.is_success:
        code, text = f"{reply.status_code} {body.get('code', '')}".strip(), ""
    elif body["error"]:
        code, text = body["error"]["code"], ""
    else:
        code, text = body["status"], read_text(client, kb, body["id"])
    got = f"{code}, {len(text)} characters"
    if entry.get("fail"):
        wrong = "should fail" if reply.is_success and not body["error"] else ""
    elif entry.get("empty"):
        wrong = "" if (code == "no_text" or (code == "ready" and not text.strip())) else "should be empty"
    else:
        wrong = find_faults(entry, path, text) if code == "ready" else "should be ready"
    return FileOutcome(path.name, got, wrong, must)


def run_set(client: httpx2.Client, folder: Path) -> bool:
    """Check all files, print a row for each, and return whether the targets are met.

    At least 22 files must be right, among them all files that must fail or be empty, and the two-column file.
    """
    kb = "torture"
    client.post("/v1/knowledge-bases", json={"name": kb}).raise_for_status()
    entries: list[Entry] = json.loads((folder / "manifest.json").read_text("utf-8"))
    print("| file | result | matches the manifest |\n| --- | --- | --- |")
    outcomes = []
    for entry in entries:
        outcome = check_file(entry, folder / entry["file"], client, kb)
        outcomes.append(outcome)
        print(f"| {outcome.file} | {outcome.result} | {outcome.faults or 'yes'} |", flush=True)
    right = sum(not outcome.faults for outcome in outcomes)
    musts = [outcome for outcome in outcomes if outcome.is_required or outcome.file == COLUMNS_FILE]
    locked = sum(not outcome.faults for outcome in musts)
    print(
        f"\n{right} of {len(outcomes)} files are right (target: {MIN_RIGHT_FILES}); "
        f"of the files that must fail or be empty, and {COLUMNS_FILE}:"
    )
    print(f"{locked} of {len(musts)} (target: all)")
    return right >= MIN_RIGHT_FILES and locked == len(musts)
