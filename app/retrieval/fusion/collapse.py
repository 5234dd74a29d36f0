"""Collapse of identical texts: one hit represents all hits of a knowledge base with its text (pure)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from app.retrieval.fusion.merge_sources import get_normalized_text
from app.retrieval.types import Hit, HitDuplicate


def collapse_hits(hits: Sequence[Hit]) -> list[Hit]:
    """Keep the best hit of each text of a knowledge base, with the other hits as its duplicates.

    Two texts are identical if they differ in white space only. Hits without text stay.

    Args:
        hits: Hits, best first. A hit may have duplicates from an earlier collapse.

    Returns:
        The best hit of each text, in their order.
    """
    groups: dict[Any, list[Hit]] = {}
    for hit in hits:
        text = get_normalized_text(hit)
        groups.setdefault((hit.key[:16], text) if text else hit.key, []).append(hit)
    return [replace(best, duplicates=_collect_duplicates(best, others)) for best, *others in groups.values()]


def _collect_duplicates(best: Hit, others: Sequence[Hit]) -> tuple[HitDuplicate, ...]:
    duplicates = [*(best.duplicates or ())]
    for hit in others:
        if hit.is_external:  # no stored chunk has its id
            continue
        duplicates.append(HitDuplicate(hit.document.id, hit.chunk.id, hit.chunk.ordinal, hit.document.source))
        duplicates += hit.duplicates or ()
    return tuple(dict.fromkeys(duplicates))
