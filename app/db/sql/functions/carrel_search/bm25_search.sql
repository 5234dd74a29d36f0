-- Return the p_k chunks with the highest BM25 scores. The service calls hybrid_search; tests and measurements call this.
-- work_mem keeps bitmaps exact: a lossy bitmap would compute the terms of every row of a page again.
create or replace function bm25_search(p_tenant uuid, p_index uuid, p_terms int4[], p_keys int4[], p_scopes uuid[], p_contains jsonb, p_path jsonpath, p_k int,
                            p_lookups jsonb default null)
returns table(chunk_id uuid, score real) language plpgsql stable security definer rows 100
set search_path = pg_catalog, public, pg_temp set plan_cache_mode = auto set work_mem = '32MB' as $f$
begin
  perform check_tenant(p_tenant);
  return query select x.chunk_id, x.score from search_sample(p_tenant, p_index, p_scopes, p_contains, p_path, p_lookups) s,
    lexical_lane(p_tenant, p_index, p_terms, p_keys, p_scopes, p_contains, p_path, p_k, s.total, s.share, s.reach, s.terms) x;
end $f$;

revoke all on function bm25_search from public;
grant execute on function bm25_search to carrel_app;
