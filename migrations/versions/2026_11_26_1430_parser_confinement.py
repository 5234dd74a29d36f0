"""Workers tell how far their parser processes are confined.

Revision ID: 0053
Revises: 0052

Two columns without a default on a small table, and a function. A worker of an earlier version tells nothing.
"""

from app.db.migrate import run_script

revision = "0053"
down_revision = "0052"
branch_labels = None
depends_on = None

TABLES = """
set local lock_timeout = '5s';
alter table worker_beat add column confinement text, add column confinement_detail text;
"""

FUNCTIONS = """
grant create on schema public to carrel_control;
set role carrel_control;

-- The weakest confinement of parser processes among the workers that have given a sign of life within that time.
create function weakest_confinement(p_within interval, out level text, out detail text) returns setof record
language sql stable security definer set search_path = pg_catalog, public, pg_temp as $f$
  select w.confinement, w.confinement_detail from worker_beat w
   where w.tenant_id = system_tenant() and w.beat_at > clock_timestamp() - p_within and w.confinement is not null
   order by array_position(array['none', 'partial', 'full'], w.confinement), w.name limit 1
$f$;

revoke all on function weakest_confinement from public;
grant execute on function weakest_confinement to carrel_app;
reset role;
revoke create on schema public from carrel_control;
"""


def upgrade() -> None:
    run_script(TABLES)
    run_script(FUNCTIONS)
