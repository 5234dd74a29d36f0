-- Return the p_k chunks that are nearest to the query, through the HNSW index or by an exact scan. The result has p_k
-- rows whenever p_k chunks pass scopes and filter. With p_lookup_terms, the index of filter terms finds the rows of an
-- exact scan. p_total, p_share, p_reach and p_lookup_terms are the result of search_sample.
create or replace function dense_search(p_tenant uuid, p_index uuid, p_query halfvec, p_dim int, p_scopes uuid[], p_contains jsonb, p_path jsonpath,
                                        p_k int, p_total bigint, p_share float8, p_reach float8, p_lookup_terms int4[])
returns table(chunk_id uuid, score real) language plpgsql stable rows 100
set search_path = pg_catalog, public, pg_temp as $f$
declare method text; ids uuid[]; scores real[];
begin
  if p_scopes is null or p_k is null or p_k < 1 or p_k > 1000 or vector_dims(p_query) is distinct from p_dim then
    raise invalid_parameter_value using message = 'scopes, 1 <= k <= 1000, a query of dim dimensions';
  end if;
  if prefers_hnsw(p_total, p_share, p_reach, p_k) then
    select i.vector_index into method from search_index i where i.tenant_id = p_tenant and i.id = p_index;
    if method = 'hnsw' then
      select array_agg(h.chunk_id order by h.ord), array_agg(h.score order by h.ord) into ids, scores
        from hnsw_search(p_tenant, p_index, p_query, p_dim, p_scopes, p_contains, p_path, p_k, p_share) with ordinality h(chunk_id, score, ord);
      if cardinality(ids) >= p_k then return query select u.id, u.s from unnest(ids, scores) u(id, s); return; end if;
    end if;                                                      -- too few rows: use the exact scan
  end if;
  -- cosine_distance() replaces the operator <=>, because the planner cannot use an HNSW index for the function. `is
  -- true` keeps a condition out of index scans, which would compute the terms of every row again.
  if p_lookup_terms is not null and p_reach * p_total > 2000 and p_share * 2 > p_reach then
    -- Many rows have one of the terms, and most of them pass: check only the nearest rows. If p_k of these pass, they
    -- are the nearest p_k of all.
    execute 'select array_agg(x.chunk_id order by x.d, x.chunk_id), array_agg((1 - x.d)::real order by x.d, x.chunk_id)
        from (select e.chunk_id, cosine_distance(e.embedding, $1) as d from chunk_embedding e
              where e.tenant_id = $2 and e.index_id = $3 and e.dim = $7 and filter_terms(e.metadata) && $8 and (e.scope_key = any($4)) is true
              order by d, e.chunk_id limit $9) x
        cross join lateral (select e.metadata from chunk_embedding e
                            where e.tenant_id = $2 and e.index_id = $3 and e.dim = $7 and e.chunk_id = x.chunk_id offset 0) m
        where ($5 is null or m.metadata @> $5) and ($6 is null or m.metadata @@ $6)'
      into ids, scores using p_query, p_tenant, p_index, p_scopes, p_contains, p_path, p_dim, p_lookup_terms, (1.2 * p_k * p_reach / p_share)::int + 32;
    if cardinality(ids) >= p_k then return query select u.id, u.s from unnest(ids, scores) u(id, s) limit p_k; return; end if;
  end if;
  if p_lookup_terms is not null then
    return query execute 'select x.chunk_id, (1 - x.d)::real from (select e.chunk_id, cosine_distance(e.embedding, $1) as d from chunk_embedding e
        where e.tenant_id = $2 and e.index_id = $3 and e.dim = $8 and filter_terms(e.metadata) && $9
          and (e.scope_key = any($4)) is true and ($5 is null or (e.metadata @> $5) is true) and ($6 is null or (e.metadata @@ $6) is true)
        order by d, e.chunk_id limit $7) x' using p_query, p_tenant, p_index, p_scopes, p_contains, p_path, p_k, p_dim, p_lookup_terms;
    return;
  end if;
  return query execute 'select x.chunk_id, (1 - x.d)::real from (select e.chunk_id, cosine_distance(e.embedding, $1) as d from chunk_embedding e
      where e.tenant_id = $2 and e.index_id = $3 and e.dim = $8 and e.scope_key = any($4) and ($5 is null or e.metadata @> $5) and ($6 is null or e.metadata @@ $6)
      order by d, e.chunk_id limit $7) x' using p_query, p_tenant, p_index, p_scopes, p_contains, p_path, p_k, p_dim;
end $f$;

revoke all on function dense_search from public;
