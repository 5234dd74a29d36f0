"""Generations of a search index: the next one is built beside the live one, the last one is kept for a while.

Revision ID: 0015
Revises: 0014

Null columns and constant defaults: nothing is rewritten. The new indexes are on a table with a row a knowledge base.
"""

from app.db.migrate import run_script

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

TABLE = """
set local lock_timeout = '5s';

alter table search_index
  add settings jsonb,             -- its chunking and language; null is the knowledge base's own
  add started_at timestamptz,     -- when building it was asked for
  add retired_at timestamptz,     -- when another took its place; null in a retired one that is to go at once
  add error jsonb,                -- why building stopped
  add job_id uuid,                -- that builds it
  add documents_done bigint not null default 0,
  add documents_total bigint not null default 0;
create unique index search_index_building_idx on search_index (tenant_id, kb_id) where state = 'building';
create index search_index_retired_idx on search_index (tenant_id, retired_at) where state = 'retired';
create policy control on search_index for select to carrel_control using (true);
grant select (tenant_id, id, kb_id, state, retired_at) on search_index to carrel_control;
"""

FUNCTION = r"""
grant create on schema public to carrel_control;
set role carrel_control;

-- Retired search indexes that nobody goes back to any more: the time for it has passed, a newer one is there, or they
-- were never live. A minute is left to searches that still read one.
create function expired_indexes(p_undo interval, p_limit int) returns table(tenant_id uuid, index_id uuid)
language sql stable security definer set search_path = pg_catalog, public, pg_temp as $f$
  select i.tenant_id, i.id from search_index i
   where i.state = 'retired' and (i.retired_at is null or i.retired_at <= now() - greatest(p_undo, interval '1 min')
      or (i.retired_at <= now() - interval '1 min'
          and exists (select from search_index n where n.tenant_id = i.tenant_id and n.kb_id = i.kb_id
                         and n.state = 'retired' and n.retired_at > i.retired_at)))
   limit least(p_limit, 10000)
$f$;

revoke all on function expired_indexes from public;
grant execute on function expired_indexes to carrel_app;
reset role;
revoke create on schema public from carrel_control;
"""


def upgrade() -> None:
    run_script(TABLE)
    run_script(FUNCTION)
