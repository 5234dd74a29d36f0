"""Add the tables of golden sets and evaluations.

Revision ID: 0011_evaluations
Revises: 0010_faster_graph_walk

No row is written. The statements wait at most five seconds for the table ``tenant``.
"""

from app.db.migrate import build_rls_script, run_script
from app.db.sql_files import build_function_script, build_trigger_script, read_migration_sql

revision = "0011_evaluations"
down_revision = "0010_faster_graph_walk"
branch_labels = None
depends_on = None

TABLES = ("golden_set", "golden_item", "evaluation", "evaluation_result")
FUNCTIONS = (
    "owner/default_row_quota",
    "owner/check_evaluation_quota",
    "owner/check_golden_item_quota",
    "owner/check_golden_set_quota",
)
TRIGGERS = ("evaluation_quota", "golden_item_quota", "golden_set_quota")


def upgrade() -> None:
    run_script("set local lock_timeout = '5s';" + read_migration_sql("evaluations/tables.sql"))
    run_script(build_rls_script(*TABLES))
    run_script(build_function_script(FUNCTIONS, revision))
    run_script(build_trigger_script(TRIGGERS, revision))
