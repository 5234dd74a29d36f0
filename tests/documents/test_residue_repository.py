"""Counts of remaining rows: every tenant table is counted, or named as retained or unrelated with a reason."""

import asyncpg
import pytest

from app.documents.deletion import residue_repository
from app.documents.deletion.residue_repository import (
    LIST_TENANT_TABLES,
    RETAINED_BY_KIND,
    RETAINED_LOGS,
    UNRELATED_TABLES,
    Columns,
)

COUNTS = {
    "documents": (residue_repository.build_document_count,),
    "knowledge_base": (residue_repository.build_document_count, residue_repository.build_knowledge_base_count),
    "tenant": (residue_repository.build_tenant_count,),
}
# Tables of knowledge bases and tenants that have no rows of documents.
ABOVE_DOCUMENTS = frozenset(
    {
        "agent_binding",
        "api_key",
        "knowledge_base",
        "file_batch",
        "vector_store_labels",
        "prompt_version",
        "sql_view",
        "routing_profile",
        "routing_vector",
        "search_index",
    }
)


async def tables(owner: asyncpg.Connection) -> dict[str, Columns]:
    return {row["name"]: frozenset(row["columns"]) for row in await owner.fetch(LIST_TENANT_TABLES.sql)}


def forgotten(found: dict[str, Columns], kind: str) -> set[str]:
    """Return the tables that are neither counted for a kind of deletion nor named."""
    counted = {name for name, columns in found.items() for count in COUNTS[kind] if count(name, columns)}
    named = RETAINED_BY_KIND[kind] | (set() if kind == "tenant" else UNRELATED_TABLES)
    return found.keys() - counted - named - (ABOVE_DOCUMENTS if kind == "documents" else set())


@pytest.mark.parametrize("kind", COUNTS)
async def test_residue_every_table_is_counted_or_named(owner: asyncpg.Connection, kind: str) -> None:
    found = await tables(owner)
    assert {"tenant", "document", "chunk_embedding", "idempotency_subject", "job", "audit_event"} <= found.keys()
    assert forgotten(found, kind) == set()


@pytest.mark.parametrize(
    ("column", "seen"),
    [
        ("document_id uuid", {"documents", "knowledge_base", "tenant"}),
        ("kb_id uuid", {"knowledge_base", "tenant"}),
        ("index_id uuid", {"knowledge_base", "tenant"}),
        ("something_id uuid", {"tenant"}),
    ],
)
async def test_residue_new_table_is_detected(owner: asyncpg.Connection, column: str, seen: set[str]) -> None:
    transaction = owner.transaction()
    await transaction.start()
    await owner.execute(f"create table added (tenant_id uuid, {column})")
    found = await tables(owner)
    await transaction.rollback()
    assert {kind for kind in COUNTS if "added" not in forgotten(found, kind)} == seen


async def test_residue_named_tables_exist(owner: asyncpg.Connection) -> None:
    named = UNRELATED_TABLES | ABOVE_DOCUMENTS | frozenset().union(*RETAINED_BY_KIND.values())
    assert named <= (await tables(owner)).keys()


async def test_residue_tables_counted_by_chunks_are_deleted_with_them(owner: asyncpg.Connection) -> None:
    for table, columns in (await tables(owner)).items():
        if "chunk_id" in columns:
            keys = await owner.fetch(
                "select convalidated, condeferrable, confdeltype from pg_constraint"
                " where conrelid = $1::text::regclass and confrelid = 'chunk'::regclass and contype = 'f'", table,
            )  # fmt: skip
            assert [tuple(key) for key in keys] == [(True, False, b"c")], table


async def test_residue_retained_logs_reference_no_tenant(owner: asyncpg.Connection) -> None:
    for table in RETAINED_LOGS:
        keys = "select count(*) from pg_constraint where conrelid = $1::text::regclass and contype = 'f'"
        assert await owner.fetchval(keys, table) == 0, table
