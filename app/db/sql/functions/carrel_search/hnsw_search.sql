-- Return the p_k nearest chunks through the HNSW index of the search index. A filter that excludes many rows needs a
-- wider search (recall@10 is 0.974 at ef_search = 150 and 0.985 at 400).
create or replace function hnsw_search(p_tenant uuid, p_index uuid, p_query halfvec, p_dim int, p_scopes uuid[], p_contains jsonb, p_path jsonpath, p_k int, p_share float8)
returns table(chunk_id uuid, score real) language plpgsql stable security definer rows 100
set search_path = pg_catalog, public, pg_temp set plan_cache_mode = auto
set hnsw.iterative_scan = relaxed_order set hnsw.ef_search = 100 set hnsw.max_scan_tuples = 20000 set hnsw.scan_mem_multiplier = 4
set enable_sort = off set enable_bitmapscan = off set enable_seqscan = off as $f$
declare width int := case when p_share > 0.99 then 100 else 400 end;
begin
  perform check_tenant(p_tenant);
  if p_scopes is null or p_k is null or p_k < 1 or p_k > 1000 or vector_dims(p_query) is distinct from p_dim then
    raise invalid_parameter_value using message = 'scopes, 1 <= k <= 1000, a query of dim dimensions';
  end if;
  perform set_config('hnsw.ef_search', greatest(width, p_k)::text, true);   -- undone when the function returns
  return query execute format('select c.chunk_id, (1 - c.d)::real from (
      select e.chunk_id, e.embedding::halfvec(%1$L) <=> $1 as d from chunk_embedding e
      where e.tenant_id = $2 and e.index_id = $3 and e.dim = %1$L and e.scope_key = any($4)
        and ($5 is null or e.metadata @> $5) and ($6 is null or e.metadata @@ $6)
      order by e.embedding::halfvec(%1$L) <=> $1 limit $7) c order by c.d + 0.0, c.chunk_id', p_dim)
    using p_query, p_tenant, p_index, p_scopes, p_contains, p_path, p_k;
end $f$;

revoke all on function hnsw_search from public;
