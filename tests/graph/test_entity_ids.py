"""Public ids of entities."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.graph.entity_ids import decode_entity_id, encode_entity_id


@given(st.integers(-(2**31), 2**31 - 1))
def test_entity_id_of_every_key_decodes_to_the_key(key: int) -> None:
    assert decode_entity_id(encode_entity_id(key)) == key


@pytest.mark.parametrize(
    "text", ["", "ent_", "ent_1234567", "ent_123456789", "ent_1234567G", "ENT_12345678", "ent_1234567８"]
)
def test_text_that_is_no_entity_id_decodes_to_none(text: str) -> None:
    assert decode_entity_id(text) is None
