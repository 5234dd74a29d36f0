"""The checker: searches all the time, and judges what it finds."""

import time

from proofs.kill.calls import Calls
from proofs.kill.clients import SlotThread
from proofs.kill.expectations import Expected, ReturnedChunk, faults, serials_of

STRATEGIES = ("dense", "hybrid")


def examine(calls: Calls, slot: int, expected: Expected) -> list[str] | None:
    """What is wrong with a slot that nobody writes to; None without an answer."""
    wrong: list[str] = []
    for strategy in STRATEGIES:
        found = calls.search(slot, strategy)
        if found is None:
            return None
        wrong += [f"{strategy}: {one}" for one in faults(slot, found, expected)]
    return wrong


class Checker(SlotThread):
    """Looks at one slot after the other, by search, by list of chunks and by list of documents."""

    def run(self) -> None:
        try:
            while not self._stop_asked.is_set():
                self._look(self._rng.choice(self._slots))
                time.sleep(0.02)
        except Exception as exc:  # a checker that died would find nothing
            self._tally.fault(f"checker: {type(exc).__name__}: {exc}")

    def _look(self, slot: int) -> None:
        look = self._ledger.look(slot)
        how = self._rng.choice([*STRATEGIES, *STRATEGIES, "chunks"])
        found = self._chunks(slot) if how == "chunks" else self._calls.search(slot, how)
        if found is None:
            self._tally.count("looks without an answer")
            time.sleep(0.05)
            return
        self._tally.count("looks")
        expected = self._ledger.limits(slot, look)
        for wrong in faults(slot, found, expected):
            self._tally.fault(f"slot {slot}, {how}: {wrong} ({expected}; {self._calls.documents(slot)})")
        for serial in serials_of(slot, [passage.text for passage in found]):
            self._ledger.seen(slot, serial, look)

    def _chunks(self, slot: int) -> list[ReturnedChunk] | None:
        documents = self._calls.documents(slot)
        if not documents:
            return None
        if len(documents) > 1:
            self._tally.fault(f"slot {slot}: {len(documents)} documents in the list")
        return self._calls.chunks(documents[0]["id"]) or None
