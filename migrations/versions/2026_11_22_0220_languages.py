"""The language of a document, and those that a search index holds words of.

Revision ID: 0017
Revises: 0016

Additions only: a null column and one with a constant default, so nothing is rewritten. What is indexed already gets its
language with its next version; its knowledge base says it meanwhile.
"""

from app.db.migrate import run_script

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

COLUMNS = """
set local lock_timeout = '5s';

alter table document add language text;
alter table search_index add languages text[] not null default '{}';  -- filled where each document has its own
"""


def upgrade() -> None:
    run_script(COLUMNS)
