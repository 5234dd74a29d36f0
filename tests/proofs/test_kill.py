"""The checker of ``make prove NAME=kill`` finds planted faults, and nothing else."""

import random
from dataclasses import replace

import pytest

from proofs.kill.__main__ import plan_kills
from proofs.kill.expectations import ExpectedSerials, ReturnedChunk, build_mark, find_faults
from proofs.kill.ledger import Ledger, SlotState
from proofs.kill.stages import STAGES

PARTS = 6
ANY = ExpectedSerials(1, 3, True)


def passages(serial: int, *, slot: int = 7, document: str = "doc_a") -> list[ReturnedChunk]:
    return [
        ReturnedChunk(document, index, PARTS, f"{build_mark(slot, serial, index + 1, PARTS)} some words of the passage")
        for index in range(PARTS)
    ]


WHOLE = passages(2)
PLANTED = {
    "half of the passages are gone": (WHOLE[:3], "half"),
    "one passage is gone": (WHOLE[:-1], "half"),
    "one passage is there twice": ([*WHOLE, WHOLE[0]], "half"),
    "a part is gone though the count is right": ([replace(WHOLE[0], text=WHOLE[1].text), *WHOLE[1:]], "half"),
    "another version's passage among them": ([*WHOLE[1:], passages(1)[0]], "mixed"),
    "another version beside it": ([*WHOLE, *passages(1)], "mixed"),
    "the document twice": ([*WHOLE, *passages(2, document="doc_b")], "twice"),
    "another slot's passage": ([*WHOLE[1:], passages(2, slot=8)[0]], "foreign"),
    "an older version than was seen": (passages(0), "out of date"),
    "a version that nobody sent": (passages(4), "out of date"),
    "passages without a mark": ([ReturnedChunk("doc_a", 0, 1, "words")], "mixed"),
    "nothing at all": ([], "lost"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_kill_checker_finds_planted_fault(name: str) -> None:
    found, beginning = PLANTED[name]
    assert [one for one in find_faults(7, found, ANY) if one.startswith(beginning)] != []


@pytest.mark.parametrize("serial", [1, 2, 3])
def test_kill_checker_complete_version_is_no_fault(serial: int) -> None:
    assert find_faults(7, list(reversed(passages(serial))), ANY) == []


def test_kill_checker_passages_without_mark_are_no_fault() -> None:
    cut = [
        ReturnedChunk("doc_a", 0, 2, f"{build_mark(7, 1, 1, 1)} the beginning"),
        ReturnedChunk("doc_a", 1, 2, "and the end"),
    ]
    assert find_faults(7, cut, ANY) == []


def test_kill_checker_deleted_document_without_results_is_no_fault() -> None:
    assert find_faults(7, [], replace(ANY, present=False)) == []


@pytest.fixture
def ledger() -> Ledger:
    return Ledger({7: SlotState()})


def test_kill_ledger_found_version_is_the_minimum_afterwards(ledger: Ledger) -> None:
    ledger.record_sending(7)
    ledger.record_sending(7)
    ledger.record_found(7, 2, ledger.take_snapshot(7))
    assert ledger.take_snapshot(7).expected == ExpectedSerials(2, 2, True)


def test_kill_ledger_earlier_search_may_find_earlier_version(ledger: Ledger) -> None:
    ledger.record_sending(7)
    ledger.record_found(7, 1, ledger.take_snapshot(7))
    look = ledger.take_snapshot(7)
    ledger.record_sending(7)
    ledger.record_found(7, 2, ledger.take_snapshot(7))
    assert ledger.compute_limits(7, look) == ExpectedSerials(1, 2, True)


def test_kill_ledger_running_deletion_allows_both(ledger: Ledger) -> None:
    ledger.record_sending(7)
    ledger.record_found(7, 1, ledger.take_snapshot(7))
    before = ledger.take_snapshot(7)
    ledger.record_deletion_start(7)
    assert ledger.compute_limits(7, before) == ExpectedSerials(1, 1, False)
    during = ledger.take_snapshot(7)
    ledger.record_found(7, 1, during)  # a second finding does not make it the last
    assert ledger.compute_limits(7, ledger.take_snapshot(7)) == ExpectedSerials(1, 1, False)


def test_kill_ledger_deleted_version_is_never_expected(ledger: Ledger) -> None:
    ledger.record_sending(7)
    ledger.record_found(7, 1, ledger.take_snapshot(7))
    early = ledger.take_snapshot(7)
    ledger.record_deletion_start(7)
    ledger.record_deletion(7)
    ledger.record_found(7, 1, early)  # the search was slow
    assert ledger.take_snapshot(7).expected == ExpectedSerials(2, 1, False)
    assert ledger.record_sending(7) == 2
    assert find_faults(7, passages(1), ledger.take_snapshot(7).expected) != []


def test_kill_ledger_final_state_is_newest_acknowledged_or_absent(ledger: Ledger) -> None:
    assert find_faults(7, [], ledger.get_final_expectation(7)) == []
    ledger.record_sending(7)
    ledger.record_sending(7)
    ledger.record_acknowledgement(7)
    assert ledger.get_final_expectation(7) == ExpectedSerials(2, 2, True)
    ledger.record_deletion_start(7)
    ledger.record_deletion(7)
    assert ledger.get_final_expectation(7).present is False


def test_plan_kills_covers_every_stage() -> None:
    cards = plan_kills(204, random.Random(1))
    for stage in STAGES:
        targets = [target for where, target in cards if where == stage]
        assert len(targets) == 34
        assert set(targets) == {"process", "session", "postmaster"}
    assert cards == plan_kills(204, random.Random(1))
