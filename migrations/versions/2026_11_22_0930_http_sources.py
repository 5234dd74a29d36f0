"""Knowledge bases that are answered by an HTTP endpoint.

Revision ID: 0028
Revises: 0027

An addition only. To a process of before such a knowledge base is one without documents.
"""

from app.db.migrate import run_script

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None

COLUMNS = """
set local lock_timeout = '5s';

alter table knowledge_base
  add column kind text not null default 'documents',
  add column source jsonb,
  add constraint knowledge_base_kind_check check (kind in ('documents', 'http'));
"""


def upgrade() -> None:
    run_script(COLUMNS)
