"""Ledger of the service's acknowledgements, and the results that a search may therefore return."""

import threading
from dataclasses import dataclass, field, replace

from proofs.kill.expectations import ExpectedSerials


@dataclass(slots=True)
class SlotState:
    """State of one slot: the newest serial that was sent, and the oldest serial that a search may still return.

    ``is_searchable`` means that a search has returned the document and that no deletion was sent since then.
    ``is_expected`` means that an upload was acknowledged and that no deletion was sent since then.
    """

    newest_serial: int = 0
    oldest_serial: int = 1
    is_searchable: bool = False
    deletion_count: int = 0
    is_being_deleted: bool = False
    is_expected: bool = False


@dataclass(frozen=True, slots=True)
class LedgerSnapshot:
    """Expectation for a search that begins at the time of the snapshot."""

    expected: ExpectedSerials
    deletion_count: int


@dataclass(slots=True)
class Ledger:
    """States of all slots. Each slot has one client that writes to it, and any number of readers."""

    slots: dict[int, SlotState]
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def record_sending(self, slot: int) -> int:
        """Record that a new content is about to be sent, and return its serial."""
        with self._lock:
            item = self.slots[slot]
            item.newest_serial += 1
            return item.newest_serial

    def record_acknowledgement(self, slot: int) -> None:
        """Record that the newest content was acknowledged and must not be lost from now on."""
        with self._lock:
            self.slots[slot].is_expected = True

    def record_deletion_start(self, slot: int) -> None:
        """Record that a deletion is about to be sent."""
        with self._lock:
            item = self.slots[slot]
            item.deletion_count += 1
            item.is_being_deleted, item.is_searchable, item.is_expected = True, False, False

    def record_deletion(self, slot: int) -> None:
        """Record that a deletion was acknowledged. No search may return an earlier content from now on."""
        with self._lock:
            item = self.slots[slot]
            item.is_being_deleted, item.oldest_serial = False, item.newest_serial + 1

    def take_snapshot(self, slot: int) -> LedgerSnapshot:
        """Return the expectation before a search."""
        with self._lock:
            item = self.slots[slot]
            return LedgerSnapshot(
                ExpectedSerials(item.oldest_serial, item.newest_serial, item.is_searchable), item.deletion_count
            )

    def compute_limits(self, slot: int, look: LedgerSnapshot) -> ExpectedSerials:
        """Return the expectation after a search that began at snapshot ``look``.

        Contents that were sent during the search may be returned too. If a deletion was sent, the result may be empty.
        """
        with self._lock:
            item = self.slots[slot]
            present = look.expected.present and item.deletion_count == look.deletion_count
            return replace(look.expected, newest=item.newest_serial, present=present)

    def record_found(self, slot: int, serial: int, look: LedgerSnapshot) -> None:
        """Record the content that a search returned. Searches that begin later must not return an older content.

        ``look`` is the snapshot from before the search.
        """
        with self._lock:
            item = self.slots[slot]
            if item.deletion_count == look.deletion_count and serial >= item.oldest_serial:
                item.oldest_serial, item.is_searchable = serial, not item.is_being_deleted

    def get_final_expectation(self, slot: int) -> ExpectedSerials:
        """Return the expectation when no job waits: only the newest content, or none."""
        with self._lock:
            item = self.slots[slot]
            return (
                ExpectedSerials(item.newest_serial, item.newest_serial, True)
                if item.is_expected
                else ExpectedSerials(item.newest_serial + 1, item.newest_serial, False)
            )
