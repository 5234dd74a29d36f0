"""Allow the kinds agent_search and pgvector of knowledge bases.

Revision ID: 0006_source_kinds
Revises: 0005_document_bytes

No row is written again. The statements wait at most five seconds for the table, whose rows are few.
"""

from app.db.migrate import run_script

revision = "0006_source_kinds"
down_revision = "0005_document_bytes"
branch_labels = None
depends_on = None

CHANGE = """
set local lock_timeout = '5s';
alter table knowledge_base drop constraint knowledge_base_kind_check;
alter table knowledge_base add constraint knowledge_base_kind_check
  check (kind in ('documents', 'http', 'agent_search', 'pgvector'));
"""


def upgrade() -> None:
    run_script(CHANGE)
