"""Previews: the cut of a long text, and the number of concurrent previews."""

from uuid import uuid4

import pytest

from app.ingestion.preview.service import (
    MAX_CONCURRENT_PREVIEWS,
    MAX_PREVIEWS_PER_TENANT,
    PreviewBusy,
    PreviewSlots,
    take_first_blocks,
)
from app.ingestion.types import Block, BlockKind


def blocks(*texts: str) -> list[Block]:
    return [Block(BlockKind.PARAGRAPH, text) for text in texts]


@pytest.mark.parametrize(
    ("texts", "characters", "shown"),
    [
        (("one", "two"), 100, ["one", "two"]),
        (("one", "two"), 6, ["one", "two"]),
        (("one", "two"), 5, ["one", "tw"]),
        (("one", "two"), 3, ["one"]),
        (("one two", "three"), 4, ["one"]),
        (("one", "two", "three"), 6, ["one", "two"]),
    ],
)
def test_take_first_blocks_cuts_long_text(texts: tuple[str, ...], characters: int, shown: list[str]) -> None:
    found = take_first_blocks(blocks(*texts), characters)
    assert [block.text for block in found] == shown


def test_take_first_blocks_leaves_short_text() -> None:
    given = blocks("one", "two")
    assert take_first_blocks(given, 6) == given
    assert take_first_blocks(given, 5) != given


def test_preview_slots_of_tenant_are_limited() -> None:
    places, tenant = PreviewSlots(), uuid4()
    held = [places.acquire(tenant) for _ in range(MAX_PREVIEWS_PER_TENANT)]
    for place in held:
        place.__enter__()
    with pytest.raises(PreviewBusy) as busy, places.acquire(tenant):
        pass
    assert busy.value.retry_after >= 1
    with places.acquire(uuid4()):
        pass
    held[0].__exit__(None, None, None)
    with places.acquire(tenant):
        pass


def test_preview_slots_of_all_tenants_are_limited() -> None:
    places = PreviewSlots()
    held = [places.acquire(uuid4()) for _ in range(MAX_CONCURRENT_PREVIEWS)]
    for place in held:
        place.__enter__()
    with pytest.raises(PreviewBusy), places.acquire(uuid4()):
        pass
    held[0].__exit__(None, None, None)
    with places.acquire(uuid4()):
        pass


def test_preview_slot_is_released_after_error() -> None:
    places, tenant = PreviewSlots(), uuid4()
    for _ in range(2 * MAX_CONCURRENT_PREVIEWS):
        with pytest.raises(ZeroDivisionError), places.acquire(tenant):
            raise ZeroDivisionError
