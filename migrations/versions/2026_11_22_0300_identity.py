"""Identity: rotation and last use of keys.

Revision ID: 0019
Revises: 0018

Additions only. The last use stands in a table of its own: a change of a key makes every process look it up again.
"""

from app.db.migrate import run_script, walls

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

TABLES = """
set local lock_timeout = '5s';

alter table api_key add replaced_by uuid;
create table api_key_use (
  tenant_id uuid not null, key_id uuid not null, last_used_at timestamptz not null,
  constraint api_key_use_pkey primary key (tenant_id, key_id),
  constraint api_key_use_tenant_id_key_id_fkey foreign key (tenant_id, key_id) references api_key on delete cascade
) with (fillfactor = 70);
"""


def upgrade() -> None:
    run_script(TABLES)
    run_script(walls("api_key_use"))
