"""The text form of a key: random, with a checksum that detects typing errors."""

import pytest

from app.tenants.types import generate_key, has_key_format, hash_key


def test_generate_key_returns_unique_valid_keys() -> None:
    keys = {generate_key() for _ in range(500)}
    assert len(keys) == 500
    assert all(has_key_format(key) and len(key) == 45 for key in keys)
    assert len({hash_key(key) for key in keys}) == 500


def test_key_format_one_wrong_character_is_detected() -> None:
    key = generate_key()
    for place in range(len("carrel_"), len(key)):
        other = "A" if key[place] != "A" else "B"
        assert not has_key_format(key[:place] + other + key[place + 1 :])


@pytest.mark.parametrize(
    "text", ["", "carrel_", "carrel_" + "A" * 38, "carrel_" + "é" * 38, "x" * 45, "carrel_" + "0" * 500]
)
def test_key_format_other_text_is_refused(text: str) -> None:
    assert not has_key_format(text)


def test_key_format_with_additional_characters_is_refused() -> None:
    key = generate_key()
    for text in (f" {key}", f"{key}\n", key.upper(), key[:-1], key + "0"):
        assert not has_key_format(text)
