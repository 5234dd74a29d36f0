"""The plan that is told is the one that is taken: a lane with an HNSW beside it counts on its sample at any size.

Revision ID: 0039
Revises: 0038

A function alone.
"""

from app.db.migrate import run_script

revision = "0039"
down_revision = "0038"
branch_labels = None
depends_on = None

FUNCTIONS = r"""
grant create on schema public to carrel_search;  -- while it replaces its function
set role carrel_search;
create or replace function search_plan(p_tenant uuid, p_index uuid, p_scopes uuid[], p_contains jsonb, p_path jsonpath, p_k int,
                                       p_lookups jsonb default null)
returns table(chunks bigint, share float8, dense text, lexical text) language plpgsql stable security definer rows 1
set search_path = pg_catalog, public, pg_temp set plan_cache_mode = auto set work_mem = '32MB' as $f$
declare way text;
begin
  perform check_tenant(p_tenant);
  select i.vector_index into way from search_index i where i.tenant_id = p_tenant and i.id = p_index;
  return query select s.total, s.share,
    case when way = 'hnsw' and prefers_hnsw(s.total, s.share, s.reach, p_k) then 'index' else 'exact' end,
    -- What is told comes of a sample always; the lane has one where it would, and else takes every row for one that passes.
    case when s.total <= 5000 or ((s.total > 20000 or way = 'hnsw') and s.reach * s.total <= 5000) then 'all' else 'pruned' end
    from search_sample(p_tenant, p_index, p_scopes, p_contains, p_path, p_lookups, 0) s;
end $f$;
reset role;
revoke create on schema public from carrel_search;
"""


def upgrade() -> None:
    run_script(FUNCTIONS)
