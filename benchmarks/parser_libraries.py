"""``make bench NAME=parser-libraries``: compare the DOCX and HTML parsers with mammoth and trafilatura.

The files are the torture set and the cases of ``CARREL_EVAL_DATA``, the samples, and all DOCX and HTML files below each
``--folder``. The libraries are not dependencies of the project. Install them in a separate folder with
``pip install --target FOLDER mammoth trafilatura lxml_html_clean``, then name that folder with ``--libraries FOLDER``.

The benchmark prints one table for each format and folder. A table shows the number of files that meet the expectations
of their manifest. The table also shows the share of a file's words in the text, by kind of content, and the CPU time. A
manifest is a ``manifest.json`` or the ``evaldata.json`` of trafilatura's evaluation. An added word occurs in the text
more often than in the file. ``--list`` prints each failure.
"""

import argparse
import importlib
import json
import os
import re
import sys
import time
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats import html
from app.ingestion.parsers.formats.docx import docx_parser
from app.ingestion.parsers.toolkit.blocks import BlockList
from benchmarks.parser_references import Words, count_words, read_docx_words, read_html_words

ROOT = Path(__file__).resolve().parents[1]
ROUNDS = 3
SLOW_SECONDS = 0.5
OPTIONS = ParseOptions(encoding=None, max_pages=10_000, max_characters=50_000_000)
INSTALL = "pip install --target FOLDER mammoth trafilatura lxml_html_clean"
SUFFIXES = {"DOCX": (".docx",), "HTML": (".html", ".htm", ".xhtml")}
REFERENCES = {"DOCX": read_docx_words, "HTML": read_html_words}

Read = Callable[[Path], str]


@dataclass(frozen=True, slots=True)
class Expectation:
    """Texts that the parsed text of one file must contain and must not contain; ``fails`` if it must be refused."""

    path: Path
    has: Sequence[str] = ()
    has_any: Sequence[str] = ()
    has_not: Sequence[str] = ()
    fails: bool = False

    def find_faults(self, text: str | None) -> list[str]:
        """Return the faults of a parsed text. None means that the parser refused the file."""
        if text is None or self.fails:
            return [] if (text is None) == self.fails else ["refused" if text is None else "not refused"]
        folded = normalize_words(text)
        faults = [f"lacks {part!r}" for part in self.has if normalize_words(part) not in folded]
        if self.has_any and not any(normalize_words(part) in folded for part in self.has_any):
            faults.append(f"lacks all of {list(self.has_any)}")
        return faults + [f"has {part!r}" for part in self.has_not if normalize_words(part) in folded]


@dataclass(slots=True)
class Score:
    """Totals of one parser over many files."""

    right: int = 0
    lacks: int = 0
    unwanted: int = 0
    refused: int = 0
    added: int = 0
    seconds: float = 0.0
    words: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    faults: list[str] = field(default_factory=list)


def normalize_words(text: str) -> str:
    """Normalize differences that do not count: white space, soft hyphens and the bars of Markdown tables."""
    text = re.sub(r"\s*\|[ |]*", " | ", unicodedata.normalize("NFC", text).replace("\u00ad", ""))
    return " ".join(text.split())


def read_with_own(parse: Callable[..., Any], path: Path) -> str:
    return "\n".join(block.text for block in parse(path, OPTIONS).blocks)


def read_with_mammoth(mammoth: Any, path: Path) -> str:
    """Convert a DOCX to HTML with mammoth, comments included, and parse the HTML with the project's parser."""
    with path.open("rb") as file:
        images = mammoth.images.img_element(lambda image: {"alt": image.alt_text or ""})
        markup = mammoth.convert_to_html(file, convert_image=images, style_map="comment-reference => sup").value
    blocks = BlockList(OPTIONS)
    html.add_fragment(markup, blocks)
    alternatives = re.findall(r'<img[^>]*alt="([^"]*)"', markup)
    return "\n".join([*(block.text for block in blocks.blocks), *alternatives])


def read_with_trafilatura(trafilatura: Any, path: Path, *, favor_recall: bool) -> str:
    """Extract the text of a page with trafilatura. A page without text raises ValueError."""
    options = {"include_comments": True, "include_tables": True, "include_images": True, "favor_recall": favor_recall}
    text: str | None = trafilatura.extract(path.read_bytes(), **options)
    if text is None:
        raise ValueError("no text")
    return text


def load_libraries(folder: str | None) -> dict[str, dict[str, Read]] | None:
    """Return the parsers by format and name, or None if a library is missing. Print the time of each import."""
    if folder:
        sys.path.append(folder)
    modules = {}
    for name in ("mammoth", "trafilatura"):
        started = time.perf_counter()
        try:
            modules[name] = importlib.import_module(name)
        except ImportError as exc:
            sys.stderr.write(
                f"{name} cannot be imported ({exc}). Install it with\n{INSTALL}\nand add --libraries FOLDER\n"
            )
            return None
        version = importlib.import_module("importlib.metadata").version(name)
        print(f"{name} {version}: import {(time.perf_counter() - started) * 1000:.0f} ms")
    trafilatura = modules["trafilatura"]
    return {
        "DOCX": {
            "own": partial(read_with_own, docx_parser.parse),
            "mammoth": partial(read_with_mammoth, modules["mammoth"]),
        },
        "HTML": {
            "own": partial(read_with_own, html.parse),
            "trafilatura": partial(read_with_trafilatura, trafilatura, favor_recall=False),
            "trafilatura, favor_recall": partial(read_with_trafilatura, trafilatura, favor_recall=True),
        },
    }


def list_expectations(folder: Path) -> list[Expectation]:
    """Return the expectations of the manifests below a folder. A file without a manifest has only its path."""
    listed: dict[Path, Expectation] = {}
    for manifest in sorted(folder.rglob("manifest.json")):
        for entry in json.loads(manifest.read_text("utf-8")):
            path = manifest.parent / entry["file"]
            fails = bool(entry.get("fail")) or entry.get("status") == "failed"
            has = [*entry.get("has", ()), *entry.get("order", ())]
            listed[path] = Expectation(path, has, entry.get("any_of", ()), entry.get("hasnot", ()), fails)
    for manifest in sorted(folder.rglob("evaldata.json")):
        for entry in json.loads(manifest.read_text("utf-8")).values():
            result = [path for part in ("cache", "eval") if (path := manifest.parent / part / entry["file"]).exists()]
            if result:
                listed[result[0]] = Expectation(result[0], has=entry["with"], has_not=entry["without"])
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path not in listed:
            listed[path] = Expectation(path)
    return list(listed.values())


def measure(read: Read, path: Path) -> tuple[str | None, float]:
    """Return the text of a file, None if it is refused, and the CPU seconds of the fastest round."""
    text, best = None, float("inf")
    for _ in range(ROUNDS):
        started = time.process_time()
        try:
            text = read(path)
        except Exception:  # a library can raise any exception
            text = None
        best = min(best, time.process_time() - started)
        if best > SLOW_SECONDS:
            break
    return text, best


def add_file(score: Score, expected: Expectation, reference: Mapping[str, Words], read: Read) -> None:
    """Parse one file with one parser and add the result to its totals."""
    text, seconds = measure(read, expected.path)
    score.seconds += seconds
    score.refused += text is None
    faults = expected.find_faults(text)
    score.right += not faults
    lacks = sum(fault.startswith("lacks ") for fault in faults)
    score.lacks += lacks if text is not None else len(expected.has)
    score.unwanted += sum(fault.startswith("has ") for fault in faults)
    score.faults += [f"{expected.path.name}: {fault}" for fault in faults]
    output, whole = count_words(text or ""), sum(reference.values(), Counter[str]())
    for kind, words in reference.items():
        score.words[kind] += (words & output).total()
    score.added += (output - whole).total()


def compare(name: str, readers: Mapping[str, Read], expectations: Sequence[Expectation], *, lists: bool) -> None:
    """Print the tables of one format and folder."""
    totals, scores = Counter[str](), {parser: Score() for parser in readers}
    files = len(expectations)
    judged = [item for item in expectations if item.has or item.has_any or item.has_not or item.fails]
    for expected in expectations:
        try:
            reference = REFERENCES[name](expected.path)
        except Exception as exc:  # a damaged or encrypted file: only its refusal can be compared
            reference = {}
            print(f"  {expected.path.name}: words cannot be counted ({type(exc).__name__})")
        totals.update({kind: words.total() for kind, words in reference.items()})
        for parser, read in readers.items():
            add_file(scores[parser], expected, reference, read)
    _print_row(f"{files} files", scores)
    _print_row("---", ["---"] * len(scores))
    for label, values in _build_rows(list(scores.values()), judged, files, totals):
        _print_row(label, values)
    for parser, score in scores.items():
        if lists and score.faults:
            print(f"\n{parser}:\n" + "\n".join(f"  {fault}" for fault in score.faults))


def _print_row(label: str, values: Iterable[str]) -> None:
    print(f"| {' | '.join([label, *values])} |", flush=True)


def _build_rows(
    scores: Sequence[Score], judged: Sequence[Expectation], files: int, totals: Words
) -> Iterator[tuple[str, list[str]]]:
    if judged:
        yield f"files as expected, of {len(judged)}", [str(item.right - (files - len(judged))) for item in scores]
        wanted = sum(len(item.has) + bool(item.has_any) for item in judged)
        yield f"expected texts that are missing, of {wanted}", [str(item.lacks) for item in scores]
        unwanted = sum(len(item.has_not) for item in judged)
        yield f"unwanted texts that are present, of {unwanted}", [str(item.unwanted) for item in scores]
    yield "files refused", [str(item.refused) for item in scores]
    for kind, count in totals.most_common():
        if count:
            shares = [f"{100 * item.words[kind] / count:.1f} %" for item in scores]
            yield f"words of {kind}, of {count:,}", shares
    yield "added words", [f"{item.added:,}" for item in scores]
    yield "CPU seconds", [f"{item.seconds:.2f}" for item in scores]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--libraries", help="folder in which the libraries are installed")
    parser.add_argument(
        "--folder", action="append", default=[], help="folder of additional files, with or without a manifest"
    )
    parser.add_argument("--list", action="store_true", help="name each text that is missing or unwanted")
    arguments = parser.parse_args()
    data = os.environ.get("CARREL_EVAL_DATA")
    if not data:
        sys.stderr.write("Set CARREL_EVAL_DATA to the directory of evaluation sets.\n")
        return 2
    readers = load_libraries(arguments.libraries)
    if readers is None:
        return 2
    sets = {name: list_expectations(Path(data) / name) for name in ("torture", "cases")}
    sets["samples"] = [*list_expectations(ROOT / "samples"), *list_expectations(ROOT / "tests" / "samples")]
    sets |= {folder: list_expectations(Path(folder)) for folder in arguments.folder}
    for name, suffixes in SUFFIXES.items():
        for folder, expectations in sets.items():
            chosen = [item for item in expectations if item.path.suffix.lower() in suffixes]
            if chosen:
                print(f"\n{name}, {folder}")
                compare(name, readers[name], chosen, lists=arguments.list)
    return 0


if __name__ == "__main__":
    sys.exit(main())
