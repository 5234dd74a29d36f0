"""Batches of files are attached by a job, and receipts of deletions count the files that are kept.

Revision ID: 0033
Revises: 0032

Additions only. A process of before attaches a batch within its request, as ever; it shows the waiting files of a newer
one's batch as failed, without a reason, until they are attached.
"""

from app.db.migrate import run_script

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None

SQL = """
set local lock_timeout = '5s';

alter table openai_file_batch add column job_id uuid;
create index openai_file_batch_job_idx on openai_file_batch (tenant_id, kb_id) where job_id is not null;
alter table openai_batch_file add column attributes jsonb;
alter table deletion add column kept_files integer not null default 0;
"""


def upgrade() -> None:
    run_script(SQL)
