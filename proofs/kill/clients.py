"""Client threads that upload, replace, resend, wait and delete, and record the acknowledgements in the ledger."""

import random
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from proofs.kill.calls import DOCUMENTS, NoAnswerError, PatientClient
from proofs.kill.corpus import UploadContent, create_content
from proofs.kill.ledger import Ledger

READY_TIMEOUT_SECONDS = 20.0


@dataclass(slots=True)
class Tally:
    """Counts and faults of all threads."""

    counts: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, what: str) -> None:
        with self._lock:
            self.counts[what] += 1

    def record_fault(self, what: str) -> None:
        """Record a fault and print it at once."""
        with self._lock:
            self.faults.append(what)
        print(f"FAULT {what}", flush=True)


class SlotThread(threading.Thread):
    """Thread that works on some slots until ``stop`` is set."""

    def __init__(
        self,
        slots: Sequence[int],
        *,
        calls: PatientClient,
        ledger: Ledger,
        tally: Tally,
        seed: int,
        stop: threading.Event,
    ) -> None:
        super().__init__(daemon=True)
        self._slots, self._calls, self._ledger, self._tally, self._stopping = slots, calls, ledger, tally, stop
        self._rng = random.Random(seed)
        self._documents: dict[int, tuple[str, UploadContent]] = {}


class SlotWriter(SlotThread):
    """Thread that writes to its slots. No other thread writes to them."""

    def run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._run_step()
                time.sleep(self._rng.uniform(0.02, 0.2))
        except (NoAnswerError, AssertionError, KeyError, ValueError) as exc:
            self._tally.record_fault(f"client: {type(exc).__name__}: {exc}")

    def _run_step(self) -> None:
        slot, chance = self._rng.choice(self._slots), self._rng.random()
        existing = self._documents.get(slot)
        if existing is None or chance < 0.5:
            self._upload(slot)
        elif chance < 0.75:
            self._remove(slot, existing[0])
        elif chance < 0.85:
            self._send_again(slot, *existing)
        else:
            self._wait(slot, existing[0])

    def _upload(self, slot: int) -> None:
        content = create_content(slot, self._ledger.record_sending(slot), self._rng)
        reply = self._calls.upload(slot, content)
        assert reply.status_code in (200, 202), f"upload: {reply.status_code} {reply.text[:300]}"
        self._ledger.record_acknowledgement(slot)
        self._tally.count("replaced" if slot in self._documents else "uploaded")
        self._tally.count(f"sent as {content.kind}")
        document = reply.json()["id"]
        if slot in self._documents and self._documents[slot][0] != document:
            self._tally.record_fault(f"slot {slot}: the replacement of a document got another id")
        self._documents[slot] = document, content

    def _send_again(self, slot: int, document: str, content: UploadContent) -> None:
        reply = self._calls.upload(slot, content)
        if (reply.status_code, reply.json().get("id")) != (200, document):
            self._tally.record_fault(
                f"slot {slot}: an upload of the same bytes returned {reply.status_code} {reply.text[:300]}"
            )
        self._tally.count("sent again")

    def _remove(self, slot: int, document: str) -> None:
        self._ledger.record_deletion_start(slot)
        reply, again = self._calls.request_until_answered("DELETE", f"{DOCUMENTS}/{document}")
        if reply.status_code != 204 and not (again and reply.status_code == 404):
            self._tally.record_fault(f"slot {slot}: the document was missing before its deletion: {reply.status_code}")
        self._ledger.record_deletion(slot)
        del self._documents[slot]
        self._tally.count("deleted")

    def _wait(self, slot: int, document: str) -> None:
        """Wait until the newest version is searchable. The wait has a timeout, because kills can delay ingestion."""
        serial, end = self._ledger.take_snapshot(slot).expected.newest, time.monotonic() + READY_TIMEOUT_SECONDS
        while time.monotonic() < end and not self._stopping.is_set():
            look = self._ledger.take_snapshot(slot)
            reply, _ = self._calls.request_until_answered("GET", f"{DOCUMENTS}/{document}")
            state = reply.json()
            if reply.status_code != 200 or state["status"] == "failed":
                self._tally.record_fault(f"slot {slot}: {reply.status_code} {state.get('status')} {state.get('error')}")
                return
            if state["status"] == "ready":
                self._ledger.record_found(slot, serial, look)
                self._tally.count("waited until ready")
                return
            time.sleep(0.2)
        self._tally.count("not ready in time")
