-- Return the p_k chunks with the highest BM25 scores, exactly. p_terms are the ids of the query's terms, p_keys their
-- keys in the inverted index. p_visible_chunks is the number of chunks in p_scopes and in the open levels. With it,
-- term weights count only those chunks; without it, all chunks of the search index. p_total, p_share, p_reach and
-- p_lookup_terms are the result of search_sample.
create or replace function lexical_search(p_tenant uuid, p_index uuid, p_terms int4[], p_keys int4[], p_scopes uuid[], p_contains jsonb, p_path jsonpath,
                                          p_k int, p_total bigint, p_share float8, p_reach float8, p_lookup_terms int4[],
                                          p_visible_chunks bigint default null)
returns table(chunk_id uuid, score real) language plpgsql stable rows 100
set search_path = pg_catalog, public, pg_temp as $f$
declare w float8[]; ks int4[]; df int[]; suf float8[]; q sparsevec; n int; e int := 0; l int := 0; rows bigint := 0; pair float8;
  min_score float8; theta float8 := 0; ids uuid[] := '{}'; ds float8[] := '{}'; conditions text; branches text; s int4[];
begin
  if p_scopes is null or p_k is null or p_k < 1 or p_k > 1000 or cardinality(p_terms) is distinct from cardinality(p_keys) then
    raise invalid_parameter_value using message = 'scopes, 1 <= k <= 1000, as many keys as terms';
  end if;
  select array_agg(x.max_score order by x.max_score desc, x.term), array_agg(x.key order by x.max_score desc, x.term), array_agg(x.df order by x.max_score desc, x.term),
         ('{' || string_agg((x.term + 1) || ':' || x.idf, ',' order by x.term) || '}/1000000000')::sparsevec
    into w, ks, df, q
    from query_term_weights(p_tenant, p_index, p_terms, p_keys, p_scopes, p_total, p_visible_chunks) x;
  n := coalesce(cardinality(w), 0);
  if n = 0 then return; end if;
  if p_reach * p_total <= 5000 or cardinality(p_terms) > 100 then
    -- Few rows: score all of them (0.7 us each; `keys && ...` as a filter takes four times that). Many terms: nearly
    -- every row has several of them, and the number of pairs grows with the square. The conditions use =, so that the
    -- planner can use the index of the filter or of the scopes.
    if p_lookup_terms is not null then
      return query execute 'select x.chunk_id, (-x.d)::real from (select l.chunk_id, (l.terms <#> $1) + 0.0 as d from chunk_lexical l
          where l.tenant_id = $2 and l.index_id = $3 and filter_terms(l.metadata) && $8
            and (l.scope_key = any($4)) is true and ($5 is null or (l.metadata @> $5) is true) and ($6 is null or (l.metadata @@ $6) is true)
          order by d, l.chunk_id limit $7) x where x.d < 0'
        using q, p_tenant, p_index, p_scopes, p_contains, p_path, p_k, p_lookup_terms;
      return;
    end if;
    return query execute 'select x.chunk_id, (-x.d)::real from (select l.chunk_id, (l.terms <#> $1) + 0.0 as d from chunk_lexical l
        where l.tenant_id = $2 and l.index_id = $3 and l.scope_key = any($4) and ($5 is null or l.metadata @> $5) and ($6 is null or l.metadata @@ $6)
        order by d, l.chunk_id limit $7) x where x.d < 0'
      using q, p_tenant, p_index, p_scopes, p_contains, p_path, p_k;
    return;
  end if;
  -- `is not distinct from` and `is true` keep the planner from combining the GIN index's bitmap with a bitmap of nearly
  -- all rows of the search index. If the filter's index finds at most a quarter of the rows, the combination is useful.
  conditions := case when p_lookup_terms is not null and p_reach <= 0.25
    then ' and l.tenant_id = $2 and l.index_id = $3 and filter_terms(l.metadata) && $11 and ($5 is null or (l.metadata @> $5) is true)'
    when p_lookup_terms is null and p_contains is not null and p_reach <= 0.25
    then ' and l.tenant_id = $2 and l.index_id = $3 and l.metadata @> $5'
    else ' and l.tenant_id is not distinct from $2 and l.index_id is not distinct from $3 and ($5 is null or (l.metadata @> $5) is true)' end;
  suf := array_fill(0::float8, array[n + 1]);
  for i in reverse n..1 loop suf[i] := suf[i + 1] + w[i]; end loop;
  -- Take the pairs of terms with the highest possible scores, until they find p_k rows if terms are independent of each
  -- other. pair is the possible score of the last pair. It is null if all pairs find too few rows, or if at least half
  -- of the rows fail the filter.
  select max(p.max_score) into pair from (select x.max_score + y.max_score as max_score, sum(x.f::float8 * y.f / p_total * p_share) over (order by x.max_score + y.max_score desc) as found
    from unnest(w, df) with ordinality x(max_score, f, i) join unnest(w, df) with ordinality y(max_score, f, i) on y.i > x.i) p where p.found >= 1.2 * p_k and p_share > 0.5;
  -- Repeat until no further row can reach theta, the p_k-th best score so far. A term adds at most its idf times its
  -- greatest weight. The first round reads rows with one of those pairs. Without pairs, it reads rows with the terms of
  -- the highest possible scores, enough for a useful theta. The next round reads rows with a term that can reach theta
  -- alone. The last round reads rows where several of the other terms can reach theta together.
  while suf[e + 1] > theta loop
    branches := '';
    if pair is not null or w[e + 1] <= theta then
      min_score := coalesce(pair * (1 - 1e-9), theta);
      for i in e + 1..n loop
        s := '{}';
        for j in i + 1..n loop exit when w[i] + case when pair is null then suf[j] else w[j] end <= min_score; s := s || ks[j]; end loop;
        if s <> '{}' then branches := branches || format(' or (l.keys @> %L::int4[] and l.keys && %L::int4[])', array[ks[i]], s); end if;
      end loop;
      l := case when pair is null then n else 0 end;
      pair := null;
    else
      l := e + 1;
      rows := rows + df[l];
      while l < n and case when theta = 0 and e = 0 then (rows + df[l + 1]) * p_share <= greatest(600, 10 * p_k) else w[l + 1] > theta end loop
        l := l + 1;
        rows := rows + df[l];
      end loop;
      branches := format(' or l.keys && %L::int4[]', ks[e + 1:l]);
    end if;
    exit when branches = '';
    -- Two rounds can find the same row, with the same distance: `union` removes the duplicate.
    execute 'select coalesce(array_agg(x.id order by x.d, x.id), ''{}''), coalesce(array_agg(x.d order by x.d, x.id), ''{}'') from (
        select * from (select l.chunk_id, (l.terms <#> $1) + 0.0 as d from chunk_lexical l where (' || substr(branches, 5) || ') and (l.terms <#> $1) <= $10'
        || conditions || ' and (l.scope_key = any($4)) is true and ($6 is null or (l.metadata @@ $6) is true) order by d, l.chunk_id limit $7) r
        union select * from unnest($8, $9) order by 2, 1 limit $7) x(id, d)'
      into ids, ds using q, p_tenant, p_index, p_scopes, p_contains, p_path, p_k, ids, ds, -theta, p_lookup_terms;
    theta := coalesce(-ds[p_k], 0) * (1 - 1e-6);  -- lower by the rounding of float4 weights, so that no row is missed
    e := l;
  end loop;
  return query select u.id, (-u.d)::real from unnest(ids, ds) u(id, d) where u.d < 0;
end $f$;

revoke all on function lexical_search from public;
