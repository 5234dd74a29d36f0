"""What the service acknowledged to its clients, and what a search may therefore find."""

import threading
from dataclasses import dataclass, field, replace

from proofs.kill.expectations import Expected


@dataclass(slots=True)
class Slot:
    """One document's story: ``sent`` is the newest serial, ``oldest`` the least that may still be found.

    ``present`` means that it is searchable for sure: somebody saw it, and no deletion was sent since.
    """

    sent: int = 0
    oldest: int = 1
    present: bool = False
    deletions: int = 0
    removing: bool = False
    wanted: bool = False


@dataclass(frozen=True, slots=True)
class LedgerSnapshot:
    """What may be found by a search that begins now."""

    expected: Expected
    deletions: int


@dataclass(slots=True)
class Ledger:
    """All slots; each has one client that writes to it, and any number of readers."""

    slots: dict[int, Slot]
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def sending(self, slot: int) -> int:
        """A new content is about to be sent; returns its serial."""
        with self._lock:
            one = self.slots[slot]
            one.sent += 1
            return one.sent

    def acknowledged(self, slot: int) -> None:
        """The newest content was taken in: from now on it may not be lost."""
        with self._lock:
            self.slots[slot].wanted = True

    def deleting(self, slot: int) -> None:
        """A deletion is about to be sent."""
        with self._lock:
            one = self.slots[slot]
            one.deletions += 1
            one.removing, one.present, one.wanted = True, False, False

    def deleted(self, slot: int) -> None:
        """It was acknowledged: nothing that was sent before may be found again."""
        with self._lock:
            one = self.slots[slot]
            one.removing, one.oldest = False, one.sent + 1

    def look(self, slot: int) -> LedgerSnapshot:
        """Before a search."""
        with self._lock:
            one = self.slots[slot]
            return LedgerSnapshot(Expected(one.oldest, one.sent, one.present), one.deletions)

    def limits(self, slot: int, look: LedgerSnapshot) -> Expected:
        """After it: what was sent meanwhile may be found too, what is being deleted need not be."""
        with self._lock:
            one = self.slots[slot]
            present = look.expected.present and one.deletions == look.deletions
            return replace(look.expected, newest=one.sent, present=present)

    def seen(self, slot: int, serial: int, look: LedgerSnapshot) -> None:
        """A search that began at ``look`` found this content: no older one may be found by any that begins later."""
        with self._lock:
            one = self.slots[slot]
            if one.deletions == look.deletions and serial >= one.oldest:
                one.oldest, one.present = serial, not one.removing

    def last(self, slot: int) -> Expected:
        """When everything has come to rest: the newest content alone, or nothing at all."""
        with self._lock:
            one = self.slots[slot]
            return Expected(one.sent, one.sent, True) if one.wanted else Expected(one.sent + 1, one.sent, False)
