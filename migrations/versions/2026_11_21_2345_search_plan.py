"""How a search would be planned, told to who asks; documents that are dynamic are known to the lanes.

Revision ID: 0013
Revises: 0012

What 0002 decides inside is said here in the same terms. The stamp is for documents that were indexed before lanes had
it: dynamic ones are few, so the others are not rewritten.
"""

from app.db.migrate import run_script

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

FUNCTION = r"""
grant create on schema public to carrel_search;
set role carrel_search;

create function search_plan(p_tenant uuid, p_index uuid, p_scopes uuid[], p_contains jsonb, p_path jsonpath, p_k int)
returns table(chunks bigint, share float8, dense text, lexical text) language plpgsql stable security definer rows 1
set search_path = pg_catalog, public, pg_temp set plan_cache_mode = auto as $f$
declare total bigint; passing float8; way text;
begin
  perform check_tenant(p_tenant);
  select coalesce(sum(t.chunks), 0) into total from lex_totals t where t.tenant_id = p_tenant and t.index_id = p_index;
  select i.vector_index into way from search_index i where i.tenant_id = p_tenant and i.id = p_index;
  passing := search_share(p_tenant, p_index, p_scopes, p_contains, p_path);
  return query select total, passing,
    case when way = 'hnsw' and passing * total > 5000 and p_k <= 10000 * passing then 'index' else 'exact' end,
    case when total <= 5000 or (total > 20000 and passing * total <= 5000) then 'all' else 'pruned' end;
end $f$;

revoke all on function search_plan from public;
grant execute on function search_plan to carrel_app;
reset role;
revoke create on schema public from carrel_search;
"""

STAMP = "'{\"$dynamic\": true}'::jsonb"
RESTAMP = f"""
update document set filterable = filterable || {STAMP} where dynamic and not filterable @> {STAMP};
update chunk_embedding l set metadata = l.metadata || {STAMP}
  from chunk c join document d on d.tenant_id = c.tenant_id and d.id = c.document_id and d.dynamic
 where l.tenant_id = c.tenant_id and l.index_id = c.index_id and l.chunk_id = c.id and not l.metadata @> {STAMP};
update chunk_lexical l set metadata = l.metadata || {STAMP}
  from chunk c join document d on d.tenant_id = c.tenant_id and d.id = c.document_id and d.dynamic
 where l.tenant_id = c.tenant_id and l.index_id = c.index_id and l.chunk_id = c.id and not l.metadata @> {STAMP};
"""


def upgrade() -> None:
    run_script(FUNCTION)
    run_script(RESTAMP)
