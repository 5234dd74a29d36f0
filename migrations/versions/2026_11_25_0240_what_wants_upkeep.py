"""What maintenance and restamping have left undone is told by what is there, not by whoever saw it last.

Revision ID: 0044
Revises: 0043

A policy, grants and functions: nothing is rewritten.
"""

from app.db.migrate import run_script

revision = "0044"
down_revision = "0043"
branch_labels = None
depends_on = None

GRANTS = """
create policy control on routing_profile for select to carrel_control using (true);
grant select (tenant_id, index_id, chunks, changed_chunks) on routing_profile to carrel_control;
grant select (chunks, tokens) on lex_totals to carrel_control;
grant select (avgdl) on search_index to carrel_control;
grant select (pending_filter) on knowledge_base to carrel_control;
"""

FUNCTIONS = r"""
grant create on schema public to carrel_control;
set role carrel_control;

-- Without nested loops: where statistics know nothing of the jobs yet, every index would be compared with every job.
-- Search indexes whose weights were made with a mean length that is further than p_drift from the live one, and those that
-- are searched, and of whose chunks the share p_changed, or p_most of them, are not in what they are routed by. Not those
-- whose job waits or runs, nor, for ten minutes, those whose job was given up.
create function unsettled_indexes(p_drift float8, p_changed float8, p_most bigint, p_limit int)
returns table(tenant_id uuid, index_id uuid, drifted boolean, unrouted boolean)
language sql stable security definer set search_path = pg_catalog, public, pg_temp set enable_nestloop = off as $f$
  with asked as materialized (
    select distinct j.tenant_id, j.kind, j.payload ->> 'index' as index_id from job j
     where j.kind in ('maintain_index', 'make_centroids') and (j.state <> 'dead' or j.run_at > now() - interval '10 min')
  ), found as (
    select i.tenant_id, i.id,
           t.chunks > 0 and t.tokens > 0 and abs((t.tokens / nullif(t.chunks, 0))::float8 / i.avgdl - 1) > p_drift as drifted,
           i.state = 'live' and case when p.index_id is null then t.chunks > 0
                                     else p.changed_chunks > least(p_changed * p.chunks, p_most - 1) end as unrouted
      from search_index i
      join knowledge_base k on k.tenant_id = i.tenant_id and k.id = i.kb_id and k.deleted_at is null
      left join (select l.tenant_id, l.index_id, sum(l.chunks) as chunks, sum(l.tokens) as tokens from lex_totals l group by 1, 2) t
        on t.tenant_id = i.tenant_id and t.index_id = i.id
      left join routing_profile p on p.tenant_id = i.tenant_id and p.index_id = i.id
  ), wanting as (
    select f.tenant_id, f.id, coalesce(f.drifted, false) and m.index_id is null as drifted,
           coalesce(f.unrouted, false) and c.index_id is null as unrouted
      from found f
      left join asked m on m.tenant_id = f.tenant_id and m.index_id = f.id::text and m.kind = 'maintain_index'
      left join asked c on c.tenant_id = f.tenant_id and c.index_id = f.id::text and c.kind = 'make_centroids'
     where f.drifted or f.unrouted
  )
  select w.tenant_id, w.id, w.drifted, w.unrouted from wanting w where w.drifted or w.unrouted limit least(p_limit, 10000)
$f$;

-- Knowledge bases whose next stamp nobody carries to the documents: its job was given up, half an hour ago or more.
create function stalled_restamps(p_limit int) returns table(tenant_id uuid, kb_id uuid)
language sql stable security definer set search_path = pg_catalog, public, pg_temp set enable_nestloop = off as $f$
  select k.tenant_id, k.id from knowledge_base k
   where k.pending_filter is not null and k.deleted_at is null
     and not exists (select from job j
                      where j.tenant_id = k.tenant_id and j.kind = 'restamp_knowledge_base'
                        and j.payload ->> 'knowledge_base' = k.id::text
                        and (j.state <> 'dead' or j.run_at > now() - interval '30 min'))
   limit least(p_limit, 10000)
$f$;

revoke all on function unsettled_indexes, stalled_restamps from public;
grant execute on function unsettled_indexes, stalled_restamps to carrel_app;
reset role;
revoke create on schema public from carrel_control;
"""


def upgrade() -> None:
    run_script(GRANTS)
    run_script(FUNCTIONS)
