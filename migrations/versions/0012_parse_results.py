"""Add the identity of the stored parse result of an original.

Revision ID: 0012_parse_results
Revises: 0011_evaluations

The column has no default, so no row is written again. The statement waits at most five seconds for the table.
"""

from app.db.migrate import run_script

revision = "0012_parse_results"
down_revision = "0011_evaluations"
branch_labels = None
depends_on = None

CHANGE = """
set local lock_timeout = '5s';
alter table document_object add column parse_identity bytea;
"""


def upgrade() -> None:
    run_script(CHANGE)
