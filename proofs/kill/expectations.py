"""Checks of search results for a document that clients upload, replace and delete. The functions have no side effects.

Every document belongs to a slot (its external id). Each content that is sent to a slot has a separate serial. Every
part of the content has a mark with the slot, the serial, the number of the part and the number of parts. The marks in
search results therefore show the version and whether it is complete.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

MARK = re.compile(r"\bkx(\d+)v(\d+)p(\d+)n(\d+)x\b")


@dataclass(frozen=True, slots=True)
class ReturnedChunk:
    """Chunk in a search result or in a list of chunks."""

    document: str
    index: int
    total: int
    text: str


@dataclass(frozen=True, slots=True)
class ExpectedSerials:
    """Serials that a search may return, and whether an empty result is a fault (``present``)."""

    oldest: int
    newest: int
    present: bool


def build_mark(slot: int, serial: int, part: int, parts: int) -> str:
    """Build the mark of a part. Parts are numbered from 1."""
    return f"kx{slot}v{serial}p{part}n{parts}x"


def find_serials(slot: int, texts: Iterable[str]) -> set[int]:
    """Return the serials of the slot in the marks of the texts."""
    return {int(result[1]) for text in texts for result in MARK.findall(text) if int(result[0]) == slot}


def find_faults(slot: int, result: Sequence[ReturnedChunk], expected: ExpectedSerials) -> list[str]:
    """Return the faults in all returned chunks of one slot."""
    if not result:
        return ["lost: no chunk was returned"] if expected.present else []
    return [
        *_check_one_document(result),
        *_check_one_version(slot, result, expected),
        *_check_completeness(slot, result),
    ]


def _check_one_document(result: Sequence[ReturnedChunk]) -> list[str]:
    documents = {passage.document for passage in result}
    return [f"twice: {len(documents)} documents"] if len(documents) > 1 else []


def _check_one_version(slot: int, result: Sequence[ReturnedChunk], expected: ExpectedSerials) -> list[str]:
    texts = [passage.text for passage in result]
    serials = find_serials(slot, texts)
    wrong = []
    if any(int(item[0]) != slot for text in texts for item in MARK.findall(text)):
        wrong.append("foreign: chunks of another slot")
    if len(serials) != 1:
        wrong.append(f"mixed: chunks of contents {sorted(serials)}")
    if any(not expected.oldest <= serial <= expected.newest for serial in serials):
        limits = f"{expected.oldest} to {expected.newest}"
        wrong.append(f"out of date: content {sorted(serials)}, but only {limits} may be returned")
    return wrong


def _check_completeness(slot: int, result: Sequence[ReturnedChunk]) -> list[str]:
    total = max(passage.total for passage in result)
    indexes = sorted(passage.index for passage in result)
    wrong = []
    if indexes != list(range(total)):
        missing, doubled = len(set(range(total)) - set(indexes)), len(indexes) - len(set(indexes))
        wrong.append(f"half: of {total} chunks {missing} are missing and {doubled} are duplicates")
    parts: dict[tuple[int, int], set[int]] = {}
    for passage in result:
        for place, serial, part, count in MARK.findall(passage.text):
            if int(place) == slot:
                parts.setdefault((int(serial), int(count)), set()).add(int(part))
    for (serial, count), visited in parts.items():
        if visited != set(range(1, count + 1)):
            wrong.append(f"half: {len(visited)} of {count} parts of content {serial}")
    return wrong
