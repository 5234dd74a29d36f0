"""The lanes' lists put to their queries (pure)."""

from collections.abc import Sequence
from uuid import UUID

from app.retrieval.lanes import collect
from app.retrieval.repository import LaneCall, LaneList
from app.retrieval.types import Lane

TENANT, FIRST, SECOND = UUID(int=1), UUID(int=2), UUID(int=3)
# Two queries in two search indexes.
CALLS = [LaneCall(TENANT, index, 4, None, [], [], [], None, None) for index in (FIRST, SECOND, FIRST, SECOND)]


def listed(call: int, lane: Lane, *rows: tuple[int, float, float | None]) -> LaneList:
    return LaneList(call, lane, [UUID(int=row[0]) for row in rows], [row[1] for row in rows], [row[2] for row in rows])


def key(index: UUID, chunk: int) -> bytes:
    return index.bytes + UUID(int=chunk).bytes


def collected(*lists: LaneList) -> tuple[Sequence[object], Sequence[object], object]:
    found = collect(CALLS, lists, queries=2)
    return found.dense, found.lexical, found.similarity


def test_a_query_has_one_list_a_lane_best_first_and_ties_by_index_and_chunk() -> None:
    dense, lexical, _ = collected(
        listed(1, "dense", (7, 0.5, 0.5)),
        listed(0, "dense", (9, 0.5, 0.5), (8, 0.5, 0.5), (5, 0.9, 0.9)),
        listed(2, "lexical", (6, 3.0, None)),
    )
    assert dense == [[(key(FIRST, 5), 0.9), (key(FIRST, 8), 0.5), (key(FIRST, 9), 0.5), (key(SECOND, 7), 0.5)], []]
    assert lexical == [[], [(key(FIRST, 6), 3.0)]]


def test_of_several_queries_the_best_cosine_is_known_and_none_where_none_was_told() -> None:
    _, _, similarity = collected(
        listed(0, "dense", (5, 0.2, 0.2), (6, -0.4, -0.4)),
        listed(2, "lexical", (5, 3.0, 0.7), (6, 2.0, -0.6), (4, 1.0, None)),
        listed(3, "lexical", (5, 1.0, 0.1)),
    )
    assert similarity == {key(FIRST, 5): 0.7, key(FIRST, 6): -0.4, key(SECOND, 5): 0.1}
