"""Add the index that finds documents of a tenant by their bytes.

Revision ID: 0005_document_bytes
Revises: 0004_enrichment

The table has one row for each document, so the index is built in seconds. Uploads wait for it, and searches do not. The
statement waits at most five seconds for the table.
"""

from app.db.migrate import run_script

revision = "0005_document_bytes"
down_revision = "0004_enrichment"
branch_labels = None
depends_on = None

CHANGE = """
set local lock_timeout = '5s';
create index document_bytes_idx on document (tenant_id, sha256);
"""


def upgrade() -> None:
    run_script(CHANGE)
