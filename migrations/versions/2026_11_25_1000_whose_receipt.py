"""A receipt of a deletion knows whose restricted key asked for it.

Revision ID: 0045
Revises: 0044

A column that may be null, so nothing is rewritten. Receipts from before have none: keys restricted to a user do not
read them.
"""

from app.db.migrate import run_script

revision = "0045"
down_revision = "0044"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_script("set local lock_timeout = '5s'; alter table deletion add column user_key uuid;")
