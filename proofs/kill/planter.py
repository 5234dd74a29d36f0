"""Test of the checker: faults that SQL injects into the tables, each of which the checker must report.

A checker that reports no faults is only credible after this test. Each fault is undone afterwards. Copies of the
affected rows are in separate tables until then.
"""

import random
import time
from collections.abc import Sequence

import asyncpg

from proofs.kill.calls import DOCUMENTS, PatientClient, build_external_id
from proofs.kill.corpus import CONTENT_BUILDERS, UploadContent
from proofs.kill.expectations import ExpectedSerials, build_mark
from proofs.kill.watcher import check_slot

READY_TIMEOUT_SECONDS = 60.0
PART_COUNT = 12
# Conditions that select the rows of a document by its id. The order of the tables allows their restoration.
SAVED_TABLES = {
    "document": "id = $1",
    "chunk": "document_id = $1",
    "chunk_embedding": "chunk_id in (select id from chunk where document_id = $1)",
    "chunk_lexical": "chunk_id in (select id from chunk where document_id = $1)",
    "chunk_entity": "chunk_id in (select id from chunk where document_id = $1)",
    "relation": "chunk_id in (select id from chunk where document_id = $1)",
}
DELETE_HALF_SQL = (
    "delete from chunk where document_id = $1 and ordinal >= (select chunk_count / 2 from document where id = $1)"
)
ADD_OTHER_VERSION_SQL = """
insert into chunk (tenant_id, kb_id, index_id, id, document_id, version, ordinal, content, start_offset, end_offset,
                   token_count, node_path)
select tenant_id, kb_id, index_id, '00000000-0000-4000-8000-000000000001', document_id, version - 1, ordinal, $2, 0, 1,
       1, node_path from chunk where document_id = $1 and ordinal = 0"""
ADD_TO_RETRIEVERS_SQL = (
    """insert into chunk_embedding (tenant_id, index_id, chunk_id, dim, scope_key, metadata, embedding)
       select e.tenant_id, e.index_id, '00000000-0000-4000-8000-000000000001', dim, scope_key, e.metadata, embedding
         from chunk_embedding e join chunk c on c.id = e.chunk_id where c.document_id = $1 and c.ordinal = 0
          and c.id <> '00000000-0000-4000-8000-000000000001'""",
    """insert into chunk_lexical (tenant_id, index_id, chunk_id, dl, scope_key, metadata, terms, keys)
       select l.tenant_id, l.index_id, '00000000-0000-4000-8000-000000000001', dl, scope_key, l.metadata, terms, keys
         from chunk_lexical l join chunk c on c.id = l.chunk_id where c.document_id = $1 and c.ordinal = 0
          and c.id <> '00000000-0000-4000-8000-000000000001'""",
)


async def verify_checker(calls: PatientClient, owner_url: str, slots: Sequence[int]) -> None:
    """Inject three faults, each in a separate slot.

    Raises:
        AssertionError: The checker misses a fault or reports a fault that does not exist.
    """
    half, other, risen = slots
    connection = await asyncpg.connect(owner_url)
    try:
        await _inject_half(connection, calls, half)
        await _inject_other_version(connection, calls, other)
        await _inject_restored_document(connection, calls, risen)
        for slot in (half, other):
            reply, _ = calls.request_until_answered("DELETE", f"{DOCUMENTS}/{_find_document(calls, slot)}")
            assert reply.status_code == 204, reply.text
    finally:
        await connection.close()


async def _inject_half(connection: asyncpg.Connection, calls: PatientClient, slot: int) -> None:
    key = await _upload(connection, calls, slot, 1)
    _expect_fault(calls, slot, ExpectedSerials(1, 1, True), "")
    await _save_rows(connection, key)
    await connection.execute(DELETE_HALF_SQL, key)
    _expect_fault(calls, slot, ExpectedSerials(1, 1, True), "half")
    await _restore_rows(connection, key)
    _expect_fault(calls, slot, ExpectedSerials(1, 1, True), "")


async def _inject_other_version(connection: asyncpg.Connection, calls: PatientClient, slot: int) -> None:
    await _upload(connection, calls, slot, 1)
    key = await _upload(connection, calls, slot, 2)
    _expect_fault(calls, slot, ExpectedSerials(2, 2, True), "")
    await connection.execute(ADD_OTHER_VERSION_SQL, key, f"{build_mark(slot, 1, 1, PART_COUNT)} of the version before")
    for statement in ADD_TO_RETRIEVERS_SQL:
        await connection.execute(statement, key)
    _expect_fault(calls, slot, ExpectedSerials(2, 2, True), "mixed")
    await connection.execute("delete from chunk where id = '00000000-0000-4000-8000-000000000001'")
    _expect_fault(calls, slot, ExpectedSerials(2, 2, True), "")


async def _inject_restored_document(connection: asyncpg.Connection, calls: PatientClient, slot: int) -> None:
    key = await _upload(connection, calls, slot, 1)
    await _save_rows(connection, key)
    reply, _ = calls.request_until_answered("DELETE", f"{DOCUMENTS}/{_find_document(calls, slot)}")
    assert reply.status_code == 204, reply.text
    _expect_fault(calls, slot, ExpectedSerials(2, 1, False), "")
    await _restore_rows(connection, key)
    _expect_fault(calls, slot, ExpectedSerials(2, 1, False), "out of date")
    await connection.execute("delete from document where id = $1", key)
    _expect_fault(calls, slot, ExpectedSerials(2, 1, False), "")


def _expect_fault(calls: PatientClient, slot: int, expected: ExpectedSerials, beginning: str) -> None:
    """Check that every strategy reports a fault with this beginning, or none for an empty beginning."""
    result = check_slot(calls, slot, expected)
    assert result is not None, "the service did not reply to the checker"
    if beginning:
        visited = [item for item in result if item.partition(": ")[2].startswith(beginning)]
        assert len(visited) >= 2, f"the checker did not report the injected fault ({beginning}): {result}"
        print(f"injected and reported: {visited[0]}", flush=True)
    else:
        assert result == [], f"the checker reports faults that do not exist: {result}"


async def _upload(connection: asyncpg.Connection, calls: PatientClient, slot: int, serial: int) -> object:
    """Upload a text, wait until it is ready, and return the id of its row."""
    rng = random.Random(serial)
    texts = [
        f"{build_mark(slot, serial, n, PART_COUNT)} {'planted ' * rng.randint(20, 25)}."
        for n in range(1, PART_COUNT + 1)
    ]
    content: UploadContent = CONTENT_BUILDERS["text"](texts)
    assert calls.upload(slot, content).status_code == 202
    end = time.monotonic() + READY_TIMEOUT_SECONDS
    while time.monotonic() < end:
        sql = "select id from document where external_id = $1 and status = 'ready' and version = $2"
        key: object = await connection.fetchval(sql, build_external_id(slot), serial)
        if key is not None:
            return key
        time.sleep(0.1)
    raise AssertionError("a document was not ingested although no process was killed yet")


def _find_document(calls: PatientClient, slot: int) -> str:
    result = calls.list_documents(slot)
    assert result, "the list does not contain the document of the injected fault"
    return str(result[0]["id"])


async def _save_rows(connection: asyncpg.Connection, key: object) -> None:
    for table, condition in SAVED_TABLES.items():
        await connection.execute(f"create table kept_{table} as select * from {table} limit 0")
        await connection.execute(f"insert into kept_{table} select * from {table} where {condition}", key)


async def _restore_rows(connection: asyncpg.Connection, key: object) -> None:
    """Delete the remaining rows of a document, then restore the saved rows."""
    await connection.execute("delete from chunk where document_id = $1", key)
    for table in SAVED_TABLES:
        await connection.execute(f"insert into {table} select * from kept_{table} on conflict do nothing")
        await connection.execute(f"drop table kept_{table}")
