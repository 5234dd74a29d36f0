"""Plan of the calls of a document: one call a section, from the innermost sections to the document."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from app.enrichment.types import PlannedCall, SectionNode

MIN_CHARACTERS = 400
"""Length of a section in characters from which it gets a call. Shorter sections are read with the section above."""

MAX_CHARACTERS = 12_000
"""Maximum length of the text of one call in characters. Longer sections are read in parts."""

MAX_CHILDREN = 40
"""Maximum number of summaries that one call reads. With more, the first and the last are read."""


@dataclass(slots=True)
class SectionDraft:
    """Section with the ranges and calls that its own call will read."""

    node: SectionNode
    titles: tuple[str, ...]
    ranges: list[tuple[int, int]] = field(default_factory=list)
    children: list[int] = field(default_factory=list)
    sections: list["SectionDraft"] = field(default_factory=list)

    @property
    def length(self) -> int:
        return sum(end - start for start, end in self.ranges)


def plan_calls(text: str, sections: Sequence[SectionNode]) -> list[PlannedCall]:
    """Plan the calls of a document. Each call reads the summaries of earlier calls only.

    A section without other text than that of one section below gets no call.

    Args:
        text: Text of the document.
        sections: Sections in reading order, each after the section above it, the document first.

    Returns:
        The calls, in the order in which they must be made.
    """
    built: dict[UUID, SectionDraft] = {}
    for node in sections:
        parent = None if node.parent_id is None else built.get(node.parent_id)
        titles = () if parent is None else parent.titles
        section = SectionDraft(node, titles if node.title is None else (*titles, node.title))
        built[node.id] = section
        if parent is not None:
            parent.sections.append(section)
    calls: list[PlannedCall] = []
    # Sections come before the sections below them, so the reversed order is from the inside to the outside.
    for section in reversed(list(built.values())):
        _plan_section(text, section, calls, is_root=section.node.parent_id is None)
    return calls


def _plan_section(text: str, section: SectionDraft, calls: list[PlannedCall], *, is_root: bool) -> None:
    """Add the calls of a section whose sections below are planned. A short section leaves its text to the one above."""
    position, own = section.node.start, list(section.ranges)
    for below in section.sections:
        own += _strip_range(text, position, below.node.start)
        if below.children:
            section.children.append(below.children[-1])
        own += below.ranges
        position = max(position, below.node.end)
    section.ranges = own + _strip_range(text, position, section.node.end)
    if not is_root and section.length < MIN_CHARACTERS and not section.children:
        return
    if is_root and not section.ranges and not section.children:
        return
    if not _has_own_text(section) and len(section.children) == 1:
        section.ranges = []
        return
    children, ranges = _select_children(section.children), tuple(section.ranges)
    if section.length > MAX_CHARACTERS:
        parts = _split_ranges(text, ranges)
        children = [*children, *range(len(calls), len(calls) + len(parts))]
        calls.extend(PlannedCall(None, section.titles, part) for part in parts)
        ranges = ()
    calls.append(PlannedCall(section.node.id, section.titles, ranges, tuple(_select_children(children))))
    section.children, section.ranges = [len(calls) - 1], []


def _has_own_text(section: SectionDraft) -> bool:
    """Return whether a section has more text than its heading."""
    return section.length > len(section.node.title or "")


def _select_children(children: Sequence[int]) -> list[int]:
    if len(children) <= MAX_CHILDREN:
        return list(children)
    return [*children[: MAX_CHILDREN // 2], *children[-MAX_CHILDREN // 2 :]]


def _strip_range(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """Return the range without white space at its ends, or no range if nothing is left."""
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return [(start, end)] if start < end else []


def _split_ranges(text: str, ranges: Sequence[tuple[int, int]]) -> list[tuple[tuple[int, int], ...]]:
    """Split ranges into parts of at most ``MAX_CHARACTERS``, at the end of a paragraph, line or word if possible."""
    parts: list[tuple[tuple[int, int], ...]] = []
    part: list[tuple[int, int]] = []
    length = 0
    for start, end in ranges:
        while end > start:
            room = MAX_CHARACTERS - length
            if end - start <= room:
                part.append((start, end))
                length += end - start
                break
            cut = _find_cut(text, start, start + room) if room > 0 else start
            if cut > start and (not part or room > MAX_CHARACTERS // 2):
                part.append((start, cut))
                start = cut
            parts.append(tuple(part))
            part, length = [], 0
    if part:
        parts.append(tuple(part))
    return parts


def _find_cut(text: str, start: int, end: int) -> int:
    """Return the last good place to cut in the second half of a range, or its end."""
    middle = start + (end - start) // 2
    for mark in ("\n\n", "\n", " "):
        position = text.rfind(mark, middle, end)
        if position > start:
            return position + len(mark)
    return end
