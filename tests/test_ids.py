"""Ids: sorted by time, derived from their parts, and read back from their text form or not at all."""

from datetime import UTC, datetime
from uuid import UUID

import pytest

from app.ids import PREFIXES, decode_id, derive_id, encode_id, generate_id, get_creation_time


def test_new_ids_are_version_7_and_sorted_by_time() -> None:
    ids = [generate_id() for _ in range(1000)]
    assert ids == sorted(ids)
    assert len(set(ids)) == 1000
    assert {one.version for one in ids} == {7}


def test_new_id_contains_creation_time() -> None:
    before = datetime.now(UTC)
    assert abs((get_creation_time(generate_id()) - before).total_seconds()) < 60
    assert get_creation_time(UUID("017f22e2-79b0-7cc3-98c4-dc0c0c07398f")) == datetime(
        2022, 2, 22, 19, 22, 22, tzinfo=UTC
    )


def test_derived_ids_depend_on_their_parts_alone() -> None:
    document = generate_id()
    first = derive_id("chunk", document, 1, 0)
    assert first == derive_id("chunk", document, 1, 0)
    assert first.version == 8
    assert first.variant == "specified in RFC 4122"
    others = {
        derive_id("chunk", document, 1, 1),
        derive_id("chunk", document, 2, 0),
        derive_id("node", document, 1, 0),
    }
    assert len({first, *others, derive_id("chunk", document, 10), derive_id("chunk", document, 1, "0", "")}) == 6


@pytest.mark.parametrize("prefix", PREFIXES)
def test_ids_survive_encoding_and_decoding(prefix: str) -> None:
    for value in (generate_id(), derive_id(1), UUID(int=0), UUID(int=2**128 - 1)):
        text = encode_id(prefix, value)
        assert text.startswith(f"{prefix}_")
        assert len(text) == len(prefix) + 27
        assert decode_id(prefix, text) == value


def test_encode_id_equals_example_of_specification() -> None:
    assert encode_id("doc", UUID("01890a5d-ac96-774b-bcce-b302099a8057")) == "doc_01h455vb4pex5vsknk084sn02q"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "doc",
        "doc_",
        "01h455vb4pex5vsknk084sn02q",
        "kb_01h455vb4pex5vsknk084sn02q",
        "doc_doc_01h455vb4pex5vsknk084sn02q",
        "doc_01H455VB4PEX5VSKNK084SN02Q",
        "doc_01h455vb4pex5vsknk084sn02",
        "doc_01h455vb4pex5vsknk084sn02qq",
        "doc_81h455vb4pex5vsknk084sn02q",
        "doc_01h455vb4pex5vsknk084sn02u",
        "doc_" + "\0" * 26,
        "doc_" + "é" * 26,
        "doc_" + "\ud800" * 26,
        "doc_" + "\N{ARABIC-INDIC DIGIT THREE}" * 26,
        "doc_" + "0" * 10_000,
        "01890a5d-ac96-774b-bcce-b302099a8057",
    ],
)
def test_decode_id_other_text_returns_none(text: str) -> None:
    assert decode_id("doc", text) is None
