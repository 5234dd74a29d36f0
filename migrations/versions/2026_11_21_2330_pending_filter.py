"""What a knowledge base stamps on its documents, while it is on its way to them.

Revision ID: 0012
Revises: 0011

An addition only: a null column, so nothing is rewritten.
"""

from app.db.migrate import run_script

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

COLUMN = """
set local lock_timeout = '5s';

alter table knowledge_base add pending_filter jsonb;  -- the next metadata_filter; null when all is stamped
"""


def upgrade() -> None:
    run_script(COLUMN)
