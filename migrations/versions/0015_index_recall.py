"""Add the measured recall of vector indexes.

Revision ID: 0015_index_recall
Revises: 0014_places

The column has no default, so no row is written again. The statement waits at most five seconds for the table.
"""

from app.db.migrate import run_script

revision = "0015_index_recall"
down_revision = "0014_places"
branch_labels = None
depends_on = None

CHANGE = """
set local lock_timeout = '5s';
alter table search_index add column recall real;
"""


def upgrade() -> None:
    run_script(CHANGE)
