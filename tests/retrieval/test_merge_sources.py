"""Merging the hits of several sources, case by case."""

from dataclasses import replace

import pytest

from app.retrieval.fusion.collapse import collapse_hits
from app.retrieval.fusion.merge_sources import SourceHits, deduplicate_hits, fuse_sources, merge_sources
from app.retrieval.types import TextSpan
from tests.retrieval.hits import hit

Given = list[tuple[float, list[tuple[str, float]]]]


@pytest.mark.capability("sources-merge")
@pytest.mark.parametrize(
    ("given", "merged"),
    [
        ([], []),
        ([(1.0, [])], []),
        ([(1.0, [("a", 0.2)]), (1.0, [])], [("a", 1.0)]),
        # Scores of any size, each source's best first: ties by source.
        (
            [(1.0, [("a", 0.8), ("b", 0.4)]), (1.0, [("x", 40.0), ("y", 30.0), ("z", 10.0)])],
            [("a", 1.0), ("x", 1.0), ("y", 0.75), ("b", 0.5), ("z", 0.25)],
        ),
        # A source counts by its scale.
        (
            [(0.5, [("a", 0.8), ("b", 0.4)]), (1.0, [("x", 4.0), ("y", 1.0)])],
            [("x", 1.0), ("a", 0.5), ("b", 0.25), ("y", 0.25)],
        ),
        ([(2.0, [("a", 0.5)]), (1.0, [("x", 0.5)])], [("a", 2.0), ("x", 1.0)]),
        # If all scores are equal or zero, none is worse than the best.
        ([(1.0, [("a", 0.0), ("b", 0.0)])], [("a", 1.0), ("b", 1.0)]),
        ([(1.0, [("a", -3.0)])], [("a", 1.0)]),
        # Logits begin at their minimum.
        ([(1.0, [("a", 2.0), ("b", -1.0), ("c", -2.0)])], [("a", 1.0), ("b", 0.25), ("c", 0.0)]),
        ([(1.0, [("a", -1.0), ("b", -2.0), ("c", -5.0)])], [("a", 1.0), ("b", 0.75), ("c", 0.0)]),
    ],
)
def test_merge_sources_scales_scores(given: Given, merged: list[tuple[str, float]]) -> None:
    sources = [SourceHits(scale, [hit(text, score) for text, score in hits]) for scale, hits in given]
    assert [(one.chunk.content, one.score) for one in merge_sources(sources)] == merged


@pytest.mark.parametrize(
    ("texts", "kept"),
    [
        ([], []),
        (["a b", "c", "a b"], [0, 1]),
        (["a b", " a\n\tb ", "a\u00a0b", "ab"], [0, 3]),
        (["a", "A"], [0, 1]),
        (["", " ", "a", ""], [0, 1, 2, 3]),
    ],
)
def test_deduplicate_hits_equal_texts_of_knowledge_bases_appear_once(texts: list[str], kept: list[int]) -> None:
    hits = [hit(text, 1.0 - place / 10, ordinal=place, index=place) for place, text in enumerate(texts)]
    assert [one.chunk.ordinal for one in deduplicate_hits(hits)] == kept


def test_deduplicate_hits_equal_texts_of_one_knowledge_base_stay() -> None:
    indexes = [1, 2, 1, 1, 2]
    hits = [hit("a", 1.0 - place / 10, document=place, index=index) for place, index in enumerate(indexes)]
    assert [one.document.id.int for one in deduplicate_hits(hits)] == [0, 2, 3]


def test_deduplicate_hits_compares_shown_text() -> None:
    wide = TextSpan("the whole section", 0, 17)
    hits = [replace(hit(text, 1.0, index=place), expanded_span=wide) for place, text in enumerate("ab")]
    assert deduplicate_hits(hits) == hits[:1]


def test_fuse_sources_one_source_is_unchanged() -> None:
    hits = [hit("a", 0.8), hit("b", 0.4), hit("a", 0.4, ordinal=1)]
    assert fuse_sources([SourceHits(2.0, hits), SourceHits(1.0, [])]) == hits
    assert fuse_sources([]) == []


def test_fuse_sources_several_sources_become_one_list() -> None:
    theirs = [hit("b", 30.0, index=1), hit("c", 15.0, index=1)]
    sources = [SourceHits(1.0, [hit("a", 0.8), hit("b", 0.4)]), SourceHits(0.5, theirs)]
    assert [(one.chunk.content, one.score) for one in fuse_sources(sources)] == [("a", 1.0), ("b", 0.5), ("c", 0.25)]


def test_collapse_hits_best_hit_names_the_others_of_its_knowledge_base() -> None:
    texts = ["a b", "c", " a\nb", "a b", "", ""]
    hits = [hit(text, 1.0 - place / 10, document=place, index=int(place == 3)) for place, text in enumerate(texts)]
    collapsed = collapse_hits(hits)
    assert [one.document.id.int for one in collapsed] == [0, 1, 3, 4, 5]
    assert [[item.document_id.int for item in one.duplicates or ()] for one in collapsed] == [[2], [], [], [], []]
    assert collapse_hits(collapsed) == collapsed


def test_collapse_hits_adds_to_duplicates_of_an_earlier_collapse() -> None:
    first = collapse_hits([hit("a", 0.9, document=1), hit("a", 0.8, document=2)])
    second = collapse_hits([hit("a", 0.7, document=3), hit("a", 0.6, document=2)])
    (one,) = collapse_hits([*first, *second])
    assert [item.document_id.int for item in one.duplicates or ()] == [2, 3]
