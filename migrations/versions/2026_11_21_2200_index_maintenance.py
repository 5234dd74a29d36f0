"""What the maintenance of search indexes knows and remembers.

Revision ID: 0010
Revises: 0009

Additions only. A row of lex_totals that is not folded is a change that nobody has looked at yet: it is written in the
transaction of the change, so none is missed, and ingestion pays for no statement more.
"""

from app.db.migrate import run_script

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

TABLES = """
set local lock_timeout = '5s';

alter table search_index
  add held_back text constraint search_index_held_back_check
    check (held_back in ('no_owner', 'too_many', 'too_wide', 'inexact')),  -- why it has no vector index of its own
  add built_chunks bigint,                      -- that its vector index was built with
  add deleted_chunks bigint not null default 0, -- since then
  add index_bytes bigint not null default 0;
alter table lex_totals add folded boolean not null default false;
create index lex_totals_changed_idx on lex_totals (tenant_id, index_id) where not folded;
create policy control on lex_totals for select to carrel_control using (true);
grant select (tenant_id, index_id, folded) on lex_totals to carrel_control;
"""

FUNCTION = r"""
grant create on schema public to carrel_control;
set role carrel_control;

-- Search indexes that have changed since they were last looked after.
create function changed_indexes(p_limit int) returns table(tenant_id uuid, index_id uuid)
language sql stable security definer set search_path = pg_catalog, public, pg_temp as $f$
  select distinct t.tenant_id, t.index_id from lex_totals t where not t.folded limit least(p_limit, 10000)
$f$;

revoke all on function changed_indexes from public;
grant execute on function changed_indexes to carrel_app;
reset role;
revoke create on schema public from carrel_control;
"""


def upgrade() -> None:
    run_script(TABLES)
    run_script(FUNCTION)
