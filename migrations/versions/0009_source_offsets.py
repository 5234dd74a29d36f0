"""Add the positions of texts and chunks in their files.

Revision ID: 0009_source_offsets
Revises: 0008_graph_walk

The columns have no default, so no row is written again. The statements wait at most five seconds for each table.
"""

from app.db.migrate import run_script

revision = "0009_source_offsets"
down_revision = "0008_graph_walk"
branch_labels = None
depends_on = None

CHANGE = """
set local lock_timeout = '5s';
alter table document_text add column source_map bytea;
alter table chunk add column source_start integer, add column source_end integer;
"""


def upgrade() -> None:
    run_script(CHANGE)
