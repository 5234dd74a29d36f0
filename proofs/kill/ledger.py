"""What the service acknowledged to its clients, and what a search may therefore find."""

import threading
from dataclasses import dataclass, field, replace

from proofs.kill.expectations import ExpectedSerials


@dataclass(slots=True)
class SlotState:
    """One document's story: ``sent`` is the newest serial, ``oldest`` the least that may still be found.

    ``present`` means that it is searchable for sure: somebody saw it, and no deletion was sent since.
    """

    newest_serial: int = 0
    oldest_serial: int = 1
    is_searchable: bool = False
    deletion_count: int = 0
    is_being_deleted: bool = False
    is_expected: bool = False


@dataclass(frozen=True, slots=True)
class LedgerSnapshot:
    """What may be found by a search that begins now."""

    expected: ExpectedSerials
    deletion_count: int


@dataclass(slots=True)
class Ledger:
    """All slots; each has one client that writes to it, and any number of readers."""

    slots: dict[int, SlotState]
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def record_sending(self, slot: int) -> int:
        """A new content is about to be sent; returns its serial."""
        with self._lock:
            item = self.slots[slot]
            item.newest_serial += 1
            return item.newest_serial

    def record_acknowledgement(self, slot: int) -> None:
        """The newest content was taken in: from now on it may not be lost."""
        with self._lock:
            self.slots[slot].is_expected = True

    def record_deletion_start(self, slot: int) -> None:
        """A deletion is about to be sent."""
        with self._lock:
            item = self.slots[slot]
            item.deletion_count += 1
            item.is_being_deleted, item.is_searchable, item.is_expected = True, False, False

    def record_deletion(self, slot: int) -> None:
        """It was acknowledged: nothing that was sent before may be found again."""
        with self._lock:
            item = self.slots[slot]
            item.is_being_deleted, item.oldest_serial = False, item.newest_serial + 1

    def take_snapshot(self, slot: int) -> LedgerSnapshot:
        """Before a search."""
        with self._lock:
            item = self.slots[slot]
            return LedgerSnapshot(
                ExpectedSerials(item.oldest_serial, item.newest_serial, item.is_searchable), item.deletion_count
            )

    def compute_limits(self, slot: int, look: LedgerSnapshot) -> ExpectedSerials:
        """After it: what was sent meanwhile may be found too, what is being deleted need not be."""
        with self._lock:
            item = self.slots[slot]
            present = look.expected.present and item.deletion_count == look.deletion_count
            return replace(look.expected, newest=item.newest_serial, present=present)

    def record_found(self, slot: int, serial: int, look: LedgerSnapshot) -> None:
        """A search that began at ``look`` found this content: no older one may be found by any that begins later."""
        with self._lock:
            item = self.slots[slot]
            if item.deletion_count == look.deletion_count and serial >= item.oldest_serial:
                item.oldest_serial, item.is_searchable = serial, not item.is_being_deleted

    def get_final_expectation(self, slot: int) -> ExpectedSerials:
        """When everything has come to rest: the newest content alone, or nothing at all."""
        with self._lock:
            item = self.slots[slot]
            return (
                ExpectedSerials(item.newest_serial, item.newest_serial, True)
                if item.is_expected
                else ExpectedSerials(item.newest_serial + 1, item.newest_serial, False)
            )
