"""Keys of entities."""

from uuid import UUID

import pytest

from app.graph.keys import compute_entity_key

KB = UUID("01890000-0000-7000-8000-000000000001")
OTHER_KB = UUID("01890000-0000-7000-8000-000000000002")


def test_entity_key_same_name_and_knowledge_base_is_stable() -> None:
    assert compute_entity_key(KB, "stephen warbeck") == compute_entity_key(KB, "stephen warbeck") == -436367944


def test_entity_key_other_knowledge_base_differs() -> None:
    assert compute_entity_key(KB, "stephen warbeck") != compute_entity_key(OTHER_KB, "stephen warbeck")


@pytest.mark.parametrize("name", ["a", "東京", "émile zola", "x" * 200, "\ud800", "f 16"])
def test_entity_key_any_name_fits_into_signed_32_bits(name: str) -> None:
    assert -(2**31) <= compute_entity_key(KB, name) < 2**31


def test_entity_key_many_names_have_both_signs() -> None:
    keys = {compute_entity_key(KB, str(number)) for number in range(1000)}
    assert len(keys) == 1000
    assert 300 < sum(key < 0 for key in keys) < 700
