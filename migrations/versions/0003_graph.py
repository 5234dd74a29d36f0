"""Add the tables of the entity graph.

Revision ID: 0003_graph
Revises: 0002_table_heads

Existing search indexes have no graph: their column `graph` is null. A reindex builds it. No row is written again. The
statements wait at most five seconds for a table.
"""

from app.db.migrate import build_rls_script, run_script
from app.db.sql_files import read_migration_sql

revision = "0003_graph"
down_revision = "0002_table_heads"
branch_labels = None
depends_on = None

SHARED_TABLES = ("chunk_entity", "entity", "entity_alias", "relation")
TENANT_TABLES = ("private_entity_frequency",)


def upgrade() -> None:
    run_script("set local lock_timeout = '5s';" + read_migration_sql("graph/tables.sql"))
    run_script(build_rls_script(*SHARED_TABLES, shared=True))
    run_script(build_rls_script(*TENANT_TABLES))
    run_script(read_migration_sql("graph/policies.sql"))
