"""Tell of keys and tenants that change, so that no process goes on with what it knew of them.

Revision ID: 0009
Revises: 0008

Additions only: nothing is rewritten, and no lock lasts longer than the catalogue takes.
"""

from app.db.migrate import run_script

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

# Of every change, whatever the column: one that does not matter costs a look-up, one that was forgotten would be a hole.
# The payload is the tenant's id, so that a tenant with all its keys is told of once.
NOTIFICATION = """
set local lock_timeout = '5s';

create function notify_key() returns trigger language plpgsql set search_path = pg_catalog, public, pg_temp as $f$
begin
  perform pg_notify('carrel_key', to_jsonb(old) ->> tg_argv[0]);
  return null;
end $f$;
revoke all on function notify_key from public;
create trigger api_key_changed after delete or update on api_key for each row execute function notify_key('tenant_id');
create trigger tenant_changed after delete or update on tenant for each row execute function notify_key('id');
"""


def upgrade() -> None:
    run_script(NOTIFICATION)
