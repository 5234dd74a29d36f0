-- Return the p_k chunks with the highest BM25 scores, exactly. With p_seen, term weights count only the p_seen chunks of
-- p_scopes and of the open levels; otherwise they count all chunks of the search index.
create or replace function lexical_lane(p_tenant uuid, p_index uuid, p_terms int4[], p_keys int4[], p_scopes uuid[], p_contains jsonb, p_path jsonpath,
                             p_k int, p_total bigint, p_share float8, p_reach float8, p_any int4[], p_seen bigint default null)
returns table(chunk_id uuid, score real) language plpgsql stable rows 100
set search_path = pg_catalog, public, pg_temp as $f$
declare w float8[]; ks int4[]; df int[]; suf float8[]; q sparsevec; n int; e int := 0; l int := 0; rows bigint := 0; pair float8; least float8;
  theta float8 := 0; ids uuid[] := '{}'; ds float8[] := '{}'; conditions text; arms text; s int4[];
begin
  if p_scopes is null or p_k is null or p_k < 1 or p_k > 1000 or cardinality(p_terms) is distinct from cardinality(p_keys) then
    raise invalid_parameter_value using message = 'scopes, 1 <= k <= 1000, as many keys as terms';
  end if;
  select array_agg(x.most order by x.most desc, x.term), array_agg(x.k order by x.most desc, x.term), array_agg(x.df order by x.most desc, x.term),
         ('{' || string_agg((x.term + 1) || ':' || x.idf, ',' order by x.term) || '}/1000000000')::sparsevec
    into w, ks, df, q
    -- A look-up for each term: as a join, a planner without statistics reads the whole index's frequencies first.
    from (select t.term, t.k, f.df, i.idf, i.idf * f.top as most
          from (select distinct u.term, u.k from unnest(p_terms, p_keys) u(term, k)) t
          cross join lateral (select sum(d.df)::int df, max(d.top)::float8 top from lex_df d
                              where d.tenant_id = p_tenant and d.index_id = p_index and d.key = t.k) f
          cross join lateral (select case when p_seen is null then f.df else greatest(0, f.df + (
              select coalesce(sum(case when x.scope_key = all_private_levels() then -x.chunks else x.chunks end), 0)::int from private_frequency x
               where x.tenant_id = p_tenant and x.index_id = p_index and x.scope_key = any(p_scopes || all_private_levels()) and x.key = t.k)) end as df
            offset 0) s
          cross join lateral (select ln(1 + (greatest(coalesce(p_seen, p_total), s.df) - s.df + 0.5) / (s.df + 0.5))::float8 as idf offset 0) i
          where f.df > 0) x;
  n := coalesce(cardinality(w), 0);
  if n = 0 then return; end if;
  if p_reach * p_total <= 5000 or cardinality(p_terms) > 100 then
    -- Few rows: score them all (0.7 us each; `keys && ...` as a filter costs four times that). Many terms: nearly every row has several of them,
    -- and what names the pairs grows with their square. Written with =, so that the planner may start from the filter's or the scopes' index.
    if p_any is not null then
      return query execute 'select x.chunk_id, (-x.d)::real from (select l.chunk_id, (l.terms <#> $1) + 0.0 as d from chunk_lexical l
          where l.tenant_id = $2 and l.index_id = $3 and filter_terms(l.metadata) && $8
            and (l.scope_key = any($4)) is true and ($5 is null or (l.metadata @> $5) is true) and ($6 is null or (l.metadata @@ $6) is true)
          order by d, l.chunk_id limit $7) x where x.d < 0'
        using q, p_tenant, p_index, p_scopes, p_contains, p_path, p_k, p_any;
      return;
    end if;
    return query execute 'select x.chunk_id, (-x.d)::real from (select l.chunk_id, (l.terms <#> $1) + 0.0 as d from chunk_lexical l
        where l.tenant_id = $2 and l.index_id = $3 and l.scope_key = any($4) and ($5 is null or l.metadata @> $5) and ($6 is null or l.metadata @@ $6)
        order by d, l.chunk_id limit $7) x where x.d < 0'
      using q, p_tenant, p_index, p_scopes, p_contains, p_path, p_k;
    return;
  end if;
  -- `is not distinct from` and `is true` keep the planner from ANDing a bitmap of the whole index's btree range, or of most of its rows, to the
  -- GIN's. Where the filter's own index finds a quarter at most, ANDing that one is what makes the rows few.
  conditions := case when p_any is not null and p_reach <= 0.25
    then ' and l.tenant_id = $2 and l.index_id = $3 and filter_terms(l.metadata) && $11 and ($5 is null or (l.metadata @> $5) is true)'
    when p_any is null and p_contains is not null and p_reach <= 0.25
    then ' and l.tenant_id = $2 and l.index_id = $3 and l.metadata @> $5'
    else ' and l.tenant_id is not distinct from $2 and l.index_id is not distinct from $3 and ($5 is null or (l.metadata @> $5) is true)' end;
  suf := array_fill(0::float8, array[n + 1]);
  for i in reverse n..1 loop suf[i] := suf[i + 1] + w[i]; end loop;
  -- Of the pairs of terms those that can add most, as many as hold k rows if terms stand independently (they seldom avoid each other); pair is
  -- what the last of them can add. Null where all pairs together hold too few, and under a filter, where they seldom hold enough.
  select max(p.most) into pair from (select x.most + y.most as most, sum(x.f::float8 * y.f / p_total * p_share) over (order by x.most + y.most desc) as found
    from unnest(w, df) with ordinality x(most, f, i) join unnest(w, df) with ordinality y(most, f, i) on y.i > x.i) p where p.found >= 1.2 * p_k and p_share > 0.5;
  -- In rounds, until no row that was not read can reach theta, the k-th best score so far. First rows with one of those pairs, or with the terms
  -- that can add most, enough of them for theta to mean something; then with terms that can reach theta alone (a term adds at most its idf times
  -- the greatest weight it has); last, rows where several of the others reach it together.
  while suf[e + 1] > theta loop
    arms := '';
    if pair is not null or w[e + 1] <= theta then
      least := coalesce(pair * (1 - 1e-9), theta);
      for i in e + 1..n loop
        s := '{}';
        for j in i + 1..n loop exit when w[i] + case when pair is null then suf[j] else w[j] end <= least; s := s || ks[j]; end loop;
        if s <> '{}' then arms := arms || format(' or (l.keys @> %L::int4[] and l.keys && %L::int4[])', array[ks[i]], s); end if;
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
      arms := format(' or l.keys && %L::int4[]', ks[e + 1:l]);
    end if;
    exit when arms = '';
    -- Terms share rows: what two rounds find has the same distance, and `union` keeps it once.
    execute 'select coalesce(array_agg(x.id order by x.d, x.id), ''{}''), coalesce(array_agg(x.d order by x.d, x.id), ''{}'') from (
        select * from (select l.chunk_id, (l.terms <#> $1) + 0.0 as d from chunk_lexical l where (' || substr(arms, 5) || ') and (l.terms <#> $1) <= $10'
        || conditions || ' and (l.scope_key = any($4)) is true and ($6 is null or (l.metadata @@ $6) is true) order by d, l.chunk_id limit $7) r
        union select * from unnest($8, $9) order by 2, 1 limit $7) x(id, d)'
      into ids, ds using q, p_tenant, p_index, p_scopes, p_contains, p_path, p_k, ids, ds, -theta, p_any;
    theta := coalesce(-ds[p_k], 0) * (1 - 1e-6);   -- float4 weights: a hair lower, never a hair too high
    e := l;
  end loop;
  return query select u.id, (-u.d)::real from unnest(ids, ds) u(id, d) where u.d < 0;
end $f$;

revoke all on function lexical_lane from public;
