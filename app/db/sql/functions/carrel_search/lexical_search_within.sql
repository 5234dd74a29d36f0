-- Return the p_k chunks with the highest BM25 scores and a cosine of at least p_min_similarity. The cosine is the
-- highest with the query and p_other_queries. A chunk without an embedding passes. similarity is the cosine with the
-- query. p_terms, p_keys and p_visible_chunks are those of lexical_search.
create or replace function lexical_search_within(p_tenant uuid, p_index uuid, p_query halfvec, p_other_queries halfvec[], p_dim int,
                                                 p_min_similarity float8, p_terms int4[], p_keys int4[], p_scopes uuid[], p_contains jsonb,
                                                 p_path jsonpath, p_k int, p_total bigint, p_visible_chunks bigint)
returns table(chunk_id uuid, score real, similarity real) language plpgsql stable rows 100
set search_path = pg_catalog, public, pg_temp as $f$
declare q sparsevec; nearest text;
begin
  if p_scopes is null or p_k is null or p_k < 1 or p_k > 1000 or cardinality(p_terms) is distinct from cardinality(p_keys) then
    raise invalid_parameter_value using message = 'scopes, 1 <= k <= 1000, as many keys as terms';
  end if;
  select ('{' || string_agg((x.term + 1) || ':' || x.idf, ',' order by x.term) || '}/1000000000')::sparsevec into q
    from query_term_weights(p_tenant, p_index, p_terms, p_keys, p_scopes, p_total, p_visible_chunks) x;
  if q is null then return; end if;
  nearest := case when cardinality(p_other_queries) > 0 then '(select max(1 - cosine_distance(e.embedding, o)) from unnest($12) o)'
                  else '1 - cosine_distance(e.embedding, $2)' end;
  -- `offset 0` looks up each row by key: without statistics of the search index, the planner would compare all pairs of
  -- rows.
  return query execute 'select x.chunk_id, (-x.d)::real, (1 - cosine_distance(x.embedding, $2))::real from (
      select l.chunk_id, (l.terms <#> $1) + 0.0 as d, e.embedding
        from chunk_lexical l
        left join lateral (select e.embedding, ' || nearest || ' as s from chunk_embedding e
                           where e.tenant_id = $3 and e.index_id = $4 and e.dim = $5 and e.chunk_id = l.chunk_id offset 0) e on true
       where l.tenant_id = $3 and l.index_id = $4 and l.keys && $7 and l.scope_key = any($8)
         and ($9 is null or l.metadata @> $9) and ($10 is null or l.metadata @@ $10) and (e.s is null or e.s >= $6)
       order by d, l.chunk_id limit $11) x where x.d < 0'
    using q, p_query, p_tenant, p_index, p_dim, p_min_similarity, p_keys, p_scopes, p_contains, p_path, p_k, p_other_queries;
end $f$;

revoke all on function lexical_search_within from public;
