"""The notification of a document tells its status: whoever waits for the end of it need not read it in between.

Revision ID: 0011
Revises: 0010
"""

from app.db.migrate import run_script

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

# A status is one of six words, none of a caller's.
NOTIFICATION = """
create or replace function notify_document() returns trigger language plpgsql
set search_path = pg_catalog, public, pg_temp as $f$
begin
  perform pg_notify('carrel_document',
                    old.tenant_id || '/' || old.id || '/' || case when tg_op = 'DELETE' then 'deleted' else new.status end);
  return null;
end $f$;
"""


def upgrade() -> None:
    run_script(NOTIFICATION)
