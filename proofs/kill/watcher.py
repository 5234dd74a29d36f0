"""Checker threads, which search continuously and check the results."""

import time

from proofs.kill.calls import PatientClient
from proofs.kill.clients import SlotThread
from proofs.kill.expectations import ExpectedSerials, ReturnedChunk, find_faults, find_serials

STRATEGIES = ("dense", "hybrid")


def check_slot(calls: PatientClient, slot: int, expected: ExpectedSerials) -> list[str] | None:
    """Return the faults of a slot that no client writes to, or None without a reply."""
    wrong: list[str] = []
    for strategy in STRATEGIES:
        result = calls.search(slot, strategy)
        if result is None:
            return None
        wrong += [f"{strategy}: {item}" for item in find_faults(slot, result, expected)]
    return wrong


class Checker(SlotThread):
    """Thread that checks random slots by searches and by lists of chunks and documents."""

    def run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._check_slot(self._rng.choice(self._slots))
                time.sleep(0.02)
        except Exception as exc:  # a checker that ended silently would find no faults
            self._tally.record_fault(f"checker: {type(exc).__name__}: {exc}")

    def _check_slot(self, slot: int) -> None:
        look = self._ledger.take_snapshot(slot)
        how = self._rng.choice([*STRATEGIES, *STRATEGIES, "chunks"])
        result = self._list_chunks(slot) if how == "chunks" else self._calls.search(slot, how)
        if result is None:
            self._tally.count("checks without a reply")
            time.sleep(0.05)
            return
        self._tally.count("checks")
        expected = self._ledger.compute_limits(slot, look)
        for wrong in find_faults(slot, result, expected):
            self._tally.record_fault(f"slot {slot}, {how}: {wrong} ({expected}; {self._calls.list_documents(slot)})")
        for serial in find_serials(slot, [passage.text for passage in result]):
            self._ledger.record_found(slot, serial, look)

    def _list_chunks(self, slot: int) -> list[ReturnedChunk] | None:
        documents = self._calls.list_documents(slot)
        if not documents:
            return None
        if len(documents) > 1:
            self._tally.record_fault(f"slot {slot}: {len(documents)} documents in the list")
        return self._calls.list_chunks(documents[0]["id"]) or None
