"""What a preview shows of a long text, and how many are made at once."""

from uuid import uuid4

import pytest

from app.ingestion.preview import AT_ONCE, AT_ONCE_A_TENANT, Places, PreviewBusy, first_blocks
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
def test_the_beginning_of_a_text(texts: tuple[str, ...], characters: int, shown: list[str]) -> None:
    found = first_blocks(blocks(*texts), characters)
    assert [block.text for block in found] == shown


def test_what_is_whole_stays_the_same() -> None:
    given = blocks("one", "two")
    assert first_blocks(given, 6) == given
    assert first_blocks(given, 5) != given


def test_a_tenant_has_some_of_the_places() -> None:
    places, tenant = Places(), uuid4()
    held = [places.take(tenant) for _ in range(AT_ONCE_A_TENANT)]
    for place in held:
        place.__enter__()
    with pytest.raises(PreviewBusy) as busy, places.take(tenant):
        pass
    assert busy.value.retry_after >= 1
    with places.take(uuid4()):
        pass
    held[0].__exit__(None, None, None)
    with places.take(tenant):
        pass


def test_all_tenants_share_the_places() -> None:
    places = Places()
    held = [places.take(uuid4()) for _ in range(AT_ONCE)]
    for place in held:
        place.__enter__()
    with pytest.raises(PreviewBusy), places.take(uuid4()):
        pass
    held[0].__exit__(None, None, None)
    with places.take(uuid4()):
        pass


def test_a_place_is_given_back_after_an_error() -> None:
    places, tenant = Places(), uuid4()
    for _ in range(2 * AT_ONCE):
        with pytest.raises(ZeroDivisionError), places.take(tenant):
            raise ZeroDivisionError
