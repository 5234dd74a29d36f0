"""The torture set: each file through upload and ``/chunks``, compared with what its manifest says of it."""

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
    """What became of one file; ``missed`` says what is not as the manifest has it, empty where all is."""

    file: str
    result: str
    faults: str
    is_required: bool


def normalize_text(text: str) -> str:
    """What is compared: NFKC without white space and soft hyphens."""
    stored = unicodedata.normalize("NFKC", text)
    return "".join(char for char in stored if not char.isspace() and char != "\u00ad")


def read_text(client: httpx2.Client, kb: str, document: str) -> str:
    """What ``/chunks`` tells, in order: each piece of text once (neighbours overlap), below the titles that it opens.

    A heading with nothing but further headings below it is in no chunk's text, but among its chunks' titles.
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
    """The first text that does not come behind the one before it; empty where all do."""
    squeezed_text, position = normalize_text(text), 0
    for item in wanted:
        part = normalize_text(item)
        result = squeezed_text.find(part, position)
        if result < 0:
            return item
        position = result + len(part)
    return ""


def iter_column_lines(path: Path) -> Iterator[str]:
    """The lines of a two-column PDF as a reader takes them: on each page the left column, then the right one.

    A line's last word is left out, for it may be hyphenated; what lies across the middle is in neither column.
    """
    with pymupdf.open(path) as document:  # type: ignore[no-untyped-call]  # it ships no types
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
    """What of ``has``, ``hasnot`` and ``order`` is not so; the multicolumn file has an order of its own too."""
    there = normalize_text(text)
    lacking = [f"lacks {item!r}" for item in entry.get("has", ()) if normalize_text(item) not in there]
    lacking += [f"has {item!r}" for item in entry.get("hasnot", ()) if normalize_text(item) in there]
    if wrong := find_out_of_order(text, entry.get("order", ())):
        lacking.append(f"{wrong!r} is not in order")
    if path.name == COLUMNS_FILE and (wrong := find_out_of_order(text, list(iter_column_lines(path)))):
        lacking.append(f"columns: {wrong!r} is not in order")
    return "; ".join(lacking)


def check_file(entry: Entry, path: Path, client: httpx2.Client, kb: str) -> FileOutcome:
    """Upload one file, wait, and compare."""
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
    """Print a line for each file; whether enough of them are right, with all that must be."""
    kb = "torture"
    client.post("/v1/knowledge-bases", json={"name": kb}).raise_for_status()
    entries: list[Entry] = json.loads((folder / "manifest.json").read_text("utf-8"))
    print("| file | became | as the manifest says |\n| --- | --- | --- |")
    outcomes = []
    for entry in entries:
        outcome = check_file(entry, folder / entry["file"], client, kb)
        outcomes.append(outcome)
        print(f"| {outcome.file} | {outcome.result} | {outcome.faults or 'yes'} |", flush=True)
    right = sum(not outcome.faults for outcome in outcomes)
    musts = [outcome for outcome in outcomes if outcome.is_required or outcome.file == COLUMNS_FILE]
    locked = sum(not outcome.faults for outcome in musts)
    print(
        f"\n{right} of {len(outcomes)} files (reach: {MIN_RIGHT_FILES}); of those to fail or to be empty, and "
        f"{COLUMNS_FILE}:"
    )
    print(f"{locked} of {len(musts)} (reach: all)")
    return right >= MIN_RIGHT_FILES and locked == len(musts)
