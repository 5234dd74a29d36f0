"""Add the length of a repeated table head to chunks.

Revision ID: 0002_table_heads
Revises: 0001_baseline

The column has no default, so no row is written again. The statement waits at most five seconds for the table.
"""

from app.db.migrate import run_script

revision = "0002_table_heads"
down_revision = "0001_baseline"
branch_labels = None
depends_on = None

CHANGE = """
set local lock_timeout = '5s';
alter table chunk add column table_head_length integer;
"""


def upgrade() -> None:
    run_script(CHANGE)
