"""Notify of changes in knowledge bases, and index the time of a document's last change.

Revision ID: 0016_knowledge_base_events
Revises: 0015_index_recall

No row is written. Building the BRIN index reads the table ``document`` once. Changes of the table wait for about a
second for a million documents. The statement waits at most five seconds for the table.
"""

from app.db.migrate import run_script
from app.db.sql_files import build_function_script

revision = "0016_knowledge_base_events"
down_revision = "0015_index_recall"
branch_labels = None
depends_on = None

FUNCTIONS = ("owner/notify_document",)
CHANGE = """
set local lock_timeout = '5s';
create index document_updated_at_idx on document using brin (updated_at)
  with (pages_per_range = 16, autosummarize = on);
"""


def upgrade() -> None:
    run_script(CHANGE)
    run_script(build_function_script(FUNCTIONS, revision))
