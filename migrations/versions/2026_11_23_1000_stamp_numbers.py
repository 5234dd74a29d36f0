"""Which of its knowledge base's filters a document is stamped with.

Revision ID: 0040
Revises: 0039

Additions only, with a constant for what is there: nothing is rewritten.
"""

from app.db.migrate import run_script

revision = "0040"
down_revision = "0039"
branch_labels = None
depends_on = None

COLUMNS = """
set local lock_timeout = '5s';

alter table knowledge_base add filter_number integer not null default 0;  -- of metadata_filter; a pending one has the next
alter table document add stamp_number integer not null default 0;  -- of the filter that it is stamped with
"""


def upgrade() -> None:
    run_script(COLUMNS)
