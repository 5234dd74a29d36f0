"""What a search may find of a document that is uploaded, replaced and deleted all the time: pure judgement.

Every document belongs to a slot (its external id). Each content that is sent to a slot has a serial of its own, and
every part of it a mark: slot, serial, number of the part, number of parts. So the marks of what a search found say
which version it is, and whether it is whole.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

MARK = re.compile(r"\bkx(\d+)v(\d+)p(\d+)n(\d+)x\b")


@dataclass(frozen=True, slots=True)
class ReturnedChunk:
    """One passage that was found."""

    document: str
    index: int
    total: int
    text: str


@dataclass(frozen=True, slots=True)
class ExpectedSerials:
    """The serials that may be found, and whether it would be wrong to find nothing."""

    oldest: int
    newest: int
    present: bool


def build_mark(slot: int, serial: int, part: int, parts: int) -> str:
    """The word that tells where a part belongs; parts count from 1."""
    return f"kx{slot}v{serial}p{part}n{parts}x"


def find_serials(slot: int, texts: Iterable[str]) -> set[int]:
    """The contents of the slot that these texts are of."""
    return {int(result[1]) for text in texts for result in MARK.findall(text) if int(result[0]) == slot}


def find_faults(slot: int, result: Sequence[ReturnedChunk], expected: ExpectedSerials) -> list[str]:
    """What is wrong with everything that was found of one slot; empty when nothing is."""
    if not result:
        return ["lost: nothing was found"] if expected.present else []
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
        wrong.append("foreign: passages of another slot")
    if len(serials) != 1:
        wrong.append(f"mixed: passages of contents {sorted(serials)}")
    if any(not expected.oldest <= serial <= expected.newest for serial in serials):
        limits = f"{expected.oldest} to {expected.newest}"
        wrong.append(f"out of date: content {sorted(serials)}, where {limits} may be found")
    return wrong


def _check_completeness(slot: int, result: Sequence[ReturnedChunk]) -> list[str]:
    total = max(passage.total for passage in result)
    indexes = sorted(passage.index for passage in result)
    wrong = []
    if indexes != list(range(total)):
        missing, doubled = len(set(range(total)) - set(indexes)), len(indexes) - len(set(indexes))
        wrong.append(f"half: of {total} passages {missing} are missing and {doubled} are double")
    parts: dict[tuple[int, int], set[int]] = {}
    for passage in result:
        for place, serial, part, count in MARK.findall(passage.text):
            if int(place) == slot:
                parts.setdefault((int(serial), int(count)), set()).add(int(part))
    for (serial, count), visited in parts.items():
        if visited != set(range(1, count + 1)):
            wrong.append(f"half: {len(visited)} of {count} parts of content {serial}")
    return wrong
