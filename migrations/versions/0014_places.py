"""Add the lines or rows of texts and chunks in their files.

Revision ID: 0014_places
Revises: 0013_job_list

The columns have no default, so no row is written again. The statements wait at most five seconds for each table.
"""

from app.db.migrate import run_script

revision = "0014_places"
down_revision = "0013_job_list"
branch_labels = None
depends_on = None

CHANGE = """
set local lock_timeout = '5s';
alter table document_text add column place_map bytea;
alter table chunk add column place_start integer, add column place_end integer;
"""


def upgrade() -> None:
    run_script(CHANGE)
