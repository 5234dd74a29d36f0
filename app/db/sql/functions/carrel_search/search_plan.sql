-- Return the plan of a search with this filter: chunks of the search index, share that passes, and the method of each
-- retriever.
create or replace function search_plan(p_tenant uuid, p_index uuid, p_scopes uuid[], p_contains jsonb, p_path jsonpath, p_k int,
                            p_lookups jsonb default null, p_terms int default 0)
returns table(chunks bigint, share float8, dense text, lexical text) language plpgsql stable security definer rows 1
set search_path = pg_catalog, public, pg_temp set plan_cache_mode = auto set work_mem = '32MB' as $f$
declare method text;
begin
  perform check_tenant(p_tenant);
  select i.vector_index into method from search_index i where i.tenant_id = p_tenant and i.id = p_index;
  return query select s.total, s.share,
    case when method = 'hnsw' and prefers_hnsw(s.total, s.share, s.reach, p_k) then 'index' else 'exact' end,
    -- The numbers always come from a sample. lexical_search takes no sample of few chunks, and then expects every row
    -- to pass.
    case when s.total <= 5000 or p_terms > 100 or ((s.total > 20000 or method = 'hnsw') and s.reach * s.total <= 5000) then 'all' else 'pruned' end
    from search_sample(p_tenant, p_index, p_scopes, p_contains, p_path, p_lookups, 0) s;
end $f$;

revoke all on function search_plan from public;
grant execute on function search_plan to carrel_app;
