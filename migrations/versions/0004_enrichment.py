"""Add the tables of the enrichment by a chat model.

Revision ID: 0004_enrichment
Revises: 0003_graph

The new columns have no default, so no row is written again. The statements wait at most five seconds for a table.
"""

from app.db.migrate import build_rls_script, run_script
from app.db.sql_files import read_migration_sql

revision = "0004_enrichment"
down_revision = "0003_graph"
branch_labels = None
depends_on = None

SHARED_TABLES = ("node_enrichment",)
TENANT_TABLES = ("enrichment_result", "document_enrichment", "enrichment_usage")


def upgrade() -> None:
    run_script("set local lock_timeout = '5s';" + read_migration_sql("enrichment/tables.sql"))
    run_script(build_rls_script(*SHARED_TABLES, shared=True))
    run_script(build_rls_script(*TENANT_TABLES))
