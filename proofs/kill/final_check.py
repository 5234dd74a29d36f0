"""Final check, when no job waits: no document is lost, duplicated or incomplete, and nothing is left over."""

import asyncio
import re
import time
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg

from app.cleanup.sweeper import sweep_temp_files
from app.documents.types import PARSE_RESULT_SUFFIX
from harness.consistency import find_inconsistencies
from proofs.kill.calls import PatientClient
from proofs.kill.clients import Tally
from proofs.kill.expectations import ExpectedSerials
from proofs.kill.ledger import Ledger
from proofs.kill.service import ServiceProcesses
from proofs.kill.stages import list_stored_keys
from proofs.kill.watcher import check_slot

QUIET_TIMEOUT_SECONDS = 300.0
SWEEP_TIMEOUT_SECONDS = 60.0
PROBE_NAME = re.compile("[a-z0-9_]{8}")
ANSWER_TIMEOUT_SECONDS = 20.0
COUNT_WAITING_SQL = "select count(*) from job where every is null and state <> 'dead'"
# After several kills, a job waits for minutes before its next attempt.
RUN_NOW_SQL = "update job set run_at = now() where every is null and state = 'ready' and run_at > now()"
_OBJECT_KEYS = """
select key from document_object union all
select key || $1 from document_object where parse_identity is not null"""
LEFTOVER_CHECKS = {
    "dead jobs": "select id, kind, error from job where state = 'dead'",
    "documents that are not ready": "select id, status, error from document where status <> 'ready'",
    "versions that are not live": "select id, version, live_version from document where version <> live_version",
    "checkpoints of vectors": """
        select d.id, d.status, d.version, d.live_version, count(*) from embedding_checkpoint c
          left join document d on (d.tenant_id, d.id) = (c.tenant_id, c.document_id)
         group by d.tenant_id, d.id, d.status, d.version, d.live_version""",
    "unfinished deletions": "select id, documents from deletion where finished_at is null",
    "documents without exactly one original": """
        select d.id, count(o.key) from document d
          left join document_object o on (o.tenant_id, o.document_id) = (d.tenant_id, d.id)
         group by d.tenant_id, d.id having count(o.key) <> 1""",
    "originals of other versions": """
        select d.id, o.version from document d
          join document_object o on (o.tenant_id, o.document_id) = (d.tenant_id, d.id)
         where o.version <> d.version""",
    "duplicate periodic jobs": """
        select kind, count(*) from job where every is not null group by kind having count(*) > 1""",
}


async def check_final_state(service: ServiceProcesses, calls: PatientClient, ledger: Ledger, tally: Tally) -> None:
    """Wait until the queue is empty, then check documents, rows and objects. Faults go to the tally."""
    connection = await asyncpg.connect(service.urls.owner)
    try:
        await _wait_until_quiet(connection, tally)
        await asyncio.to_thread(_compare_slots, calls, ledger, tally)  # in a thread, so that the supervisor continues
        for name, rows in (await find_inconsistencies(service.urls.owner)).items():
            tally.record_fault(f"recount, {name}: {rows[:3]}")
        for name, sql in LEFTOVER_CHECKS.items():
            rows = await connection.fetch(sql)
            if rows:
                tally.record_fault(f"left over, {name}: {len(rows)}, such as {dict(rows[0])}")
        await _sweep(service, connection, tally)
    finally:
        await connection.close()


async def _wait_until_quiet(connection: asyncpg.Connection, tally: Tally) -> None:
    end = time.monotonic() + QUIET_TIMEOUT_SECONDS
    await connection.execute(RUN_NOW_SQL)
    while waiting := await connection.fetchval(COUNT_WAITING_SQL):
        if time.monotonic() > end:
            jobs = await connection.fetch("select kind, state, attempts, run_at, error from job where every is null")
            tally.record_fault(
                f"{waiting} jobs did not end within {QUIET_TIMEOUT_SECONDS:.0f} s: {[dict(job) for job in jobs[:3]]}"
            )
            return
        await asyncio.sleep(0.2)


def _compare_slots(calls: PatientClient, ledger: Ledger, tally: Tally) -> None:
    """Check that each slot has the newest acknowledged content, or none after an acknowledged deletion."""
    for slot in sorted(ledger.slots):
        expected = ledger.get_final_expectation(slot)
        documents, wrong = _read_final_state(calls, slot, expected)
        if documents is None or wrong is None:
            tally.record_fault(f"slot {slot}: no reply in the final check")
            continue
        if len(documents) != int(expected.present):
            tally.record_fault(
                f"slot {slot}: {len(documents)} documents in the final check, instead of {int(expected.present)}"
            )
        for item in wrong:
            tally.record_fault(f"slot {slot}, final check, {item}")


def _read_final_state(
    calls: PatientClient, slot: int, expected: ExpectedSerials
) -> tuple[list[dict[str, Any]] | None, list[str] | None]:
    """Return the documents and the faults of a slot. A failed request is repeated, as clients do.

    A pooled database connection can be broken without notice. The first request that uses the connection then fails.
    """
    end = time.monotonic() + ANSWER_TIMEOUT_SECONDS
    while True:
        documents = calls.list_documents(slot)
        wrong = check_slot(calls, slot, expected)
        if (documents is not None and wrong is not None) or time.monotonic() > end:
            return documents, wrong
        time.sleep(0.2)


async def _sweep(service: ServiceProcesses, connection: asyncpg.Connection, tally: Tally) -> None:
    """Run the sweeper with the minimum ages. Afterwards every object must have a row and every row an object."""
    rows = {row["key"] for row in await connection.fetch(_OBJECT_KEYS, PARSE_RESULT_SUFFIX)}
    before = list_stored_keys(service.store)
    print(f"before the last sweep: {len(before)} objects, {len(before - rows)} of them without a row", flush=True)
    service.stop()
    service.environment |= {"CARREL_WORKER_SWEEP_INTERVAL_SECONDS": "1", "CARREL_WORKER_ORPHAN_AGE_SECONDS": "1"}
    service.start_all()
    end = time.monotonic() + SWEEP_TIMEOUT_SECONDS
    while (list_stored_keys(service.store) != rows or list_partial_objects(service.store)) and time.monotonic() < end:
        await asyncio.sleep(0.5)
    result = list_stored_keys(service.store)
    for name, keys in {"without a row": result - rows, "lost": rows - result}.items():
        if keys:
            tally.record_fault(f"{len(keys)} objects are {name}: {sorted(keys)[:3]}")


def check_after_stop(service: ServiceProcesses, tally: Tally) -> None:
    """Check the stopped service: no partial objects, no processes, no temporary files that the sweeper ignores."""
    if left_halves := list_partial_objects(service.store):
        tally.record_fault(f"{len(left_halves)} partial objects are left: {left_halves[:3]}")
    if left := service.list_orphans():
        tally.record_fault(f"processes outlived the killed worker that had started them: {sorted(left)}")
    temporary = service.folder / "tmp"
    swept = sweep_temp_files(temporary, older_than=timedelta(0))
    print(f"temporary files and folders of killed processes: {swept}, removed as a worker does after a day")
    if remainder := sorted(_list_temporary_names(temporary)):
        tally.record_fault(f"temporary files that no sweep removes: {remainder[:5]}")


def list_partial_objects(store: Path) -> list[str]:
    """Return the names of objects whose upload did not end."""
    return [path.name for path in store.rglob("~*")]


def _list_temporary_names(folder: Path) -> Iterable[str]:
    """Yield the names of temporary files, except probe files.

    Python's tempfile tests a folder with a probe file. A kill can prevent the removal of that file.
    """
    return (
        path.name for path in folder.iterdir() if not (PROBE_NAME.fullmatch(path.name) and path.stat().st_size <= 4)
    )
