"""Ranges and equalities are found by an index of terms.

Revision ID: 0036
Revises: 0035

Up to here a filter's range was asked of every row that a lane looked at: under one that passes a hundredth the dense
lane read all 100,000 chunks. Functions alone; the indexes are made by the worker, one after the other, while searches
go on as before (ADR 0013).
"""

from app.db.migrate import run_script

revision = "0036"
down_revision = "0035"
branch_labels = None
depends_on = None

FUNCTIONS = r"""
-- Who writes a row, and who makes an index, has its terms made; they come of the row alone. So these are the owner's.
-- 32 bits of a value: those of numbers and of instants order as they do, as doubles of 20 bits of mantissa, and to two minutes. Several values may
-- have the same.
create function value_key(p_value jsonb, p_instant bool) returns bigint language plpgsql immutable strict parallel safe
set search_path = pg_catalog, public, pg_temp as $f$
declare d text := p_value #>> '{}';
begin
  if jsonb_typeof(p_value) = 'number' then
    return ('x' || encode(substr(float8send(case when p_value > '1e300' then 1e300 when p_value < '-1e300' then -1e300
        when p_value > '-1e-300' and p_value < '1e-300' then 0 else p_value::float8 end), 1, 4), 'hex'))::bit(32)::bigint
      # case when p_value <= '-1e-300' then 4294967295 else 2147483648 end;
  elsif p_instant then
    return (((substr(d, 1, 4)::bigint * 12 + substr(d, 6, 2)::int) * 31 + substr(d, 9, 2)::int) * 24 + substr(d, 12, 2)::int) * 30
      + substr(d, 15, 2)::int / 2;
  end if;
  return hashtextextended(p_value::text, 0) & 4294967295;
end $f$;

-- One of the intervals that a value lies in, of 16^level keys; of level 8 a value that has no order. Different ones may have the same term. Postgres
-- partitions tables by this hash, so it stays the same through its versions.
create function filter_term(p_path text, p_level int, p_place bigint) returns int4 language sql immutable strict parallel safe
  return (((hashtextextended(p_path, 0) & 4294967295) + p_level * 1000003 + p_place * 1540483477) & 4294967295)::bit(32)::int4;

-- What a row's metadata is found by: of each number and instant that a path of keys reaches the intervals of eight sizes that it lies in (the "trie
-- range" of Schindler and Diepenbroek, Computers & Geosciences 34, 2008), of texts and booleans themselves. 0 for a row with very many: all find it.
-- Parallel unsafe, so that no helpers are started, which takes longer than to read what the index finds.
create function filter_terms(p_metadata jsonb) returns int4[] language sql immutable strict parallel unsafe cost 100
set search_path = pg_catalog, public, pg_temp as $f$
  with recursive part(path, value, instant) as (
    select e.key, e.value, e.key = '$instants' from jsonb_each(p_metadata) e where jsonb_typeof(e.value) not in ('array', 'null')
    union all
    select p.path || chr(31) || e.key, e.value, p.instant from part p cross join lateral jsonb_each(p.value) e
     where jsonb_typeof(p.value) = 'object' and jsonb_typeof(e.value) not in ('array', 'null')
       and (not p.instant or jsonb_typeof(e.value) = 'object' or e.value::text ~ '^"\d{4}-\d\d-\d\dT\d\d:\d\d')
  ), leaf as (
    select p.path, value_key(p.value, p.instant) as key, p.instant or jsonb_typeof(p.value) = 'number' as ordered
      from part p where jsonb_typeof(p.value) <> 'object' limit 1025
  )
  select case when count(*) > 1024 then '{0}' else array_agg(filter_term(l.path, s.level, l.key >> 4 * (s.level & 7))) end
    from leaf l join generate_series(0, 8) s(level) on l.ordered = (s.level < 8)
$f$;

revoke all on function value_key, filter_term, filter_terms from public;
grant execute on function value_key, filter_term, filter_terms to carrel_app, carrel_search;

do $$ begin perform vector_dims('[1]'::halfvec); end $$;   -- as in 0002: before that, `set hnsw.*` is refused
grant create on schema public to carrel_search;  -- while it creates its functions
set role carrel_search;
drop function hybrid_search, dense_search, bm25_search, search_plan, dense_lane, lexical_lane, search_sample;

-- What finds {"path": [...], "equal": ...} or {"path": [...], "low": ..., "high": ...}, of which one may be missing: of a range the fewest intervals that
-- make it up, at most 30 of each size. Whatever passes has one of these terms; a few others, beside the bounds or by chance, have one too.
create function lookup_terms(p_lookup jsonb) returns int4[] language plpgsql immutable parallel safe
set search_path = pg_catalog, public, pg_temp as $f$
declare path text := (select string_agg(k, chr(31) order by i) from jsonb_array_elements_text(p_lookup -> 'path') with ordinality x(k, i));
  instant bool := p_lookup #>> '{path,0}' = '$instants'; equal jsonb := p_lookup -> 'equal';
  low bigint := coalesce(value_key(p_lookup -> 'low', instant), 0);
  high bigint := coalesce(value_key(p_lookup -> 'high', instant), 4294967295);
  terms int4[] := '{0}';
begin
  if equal is not null then
    return terms || filter_term(path, case when jsonb_typeof(equal) = 'number' then 0 else 8 end, value_key(equal, false));
  end if;
  for l in 0..7 loop
    exit when low > high;
    if l = 7 or low >> 4 = high >> 4 then
      return terms || array(select filter_term(path, l, x) from generate_series(low, high) x);
    end if;
    if low & 15 > 0 then
      terms := terms || array(select filter_term(path, l, x) from generate_series(low, low | 15) x);
      low := (low | 15) + 1;
    end if;
    if high & 15 < 15 then
      terms := terms || array(select filter_term(path, l, x) from generate_series(high & ~15::bigint, high) x);
      high := (high & ~15::bigint) - 1;
    end if;
    low := low >> 4;
    high := high >> 4;
  end loop;
  return terms;
end $f$;

-- How many chunks there are, which share of them passes scopes and filter, and which share an index would find: that passes what it can look up, and
-- 1 without such an index. With terms it is the lookup that finds the fewest, by these. From the first 500 in key order: chunk ids are hashes,
-- so key order is a random sample. Up to 20,000 chunks are not worth one, unless there is an HNSW, which visits more the fewer pass. With p_dim it
-- looks into the dense lane: the lexical one may be what fails.
create function search_sample(p_tenant uuid, p_index uuid, p_scopes uuid[], p_contains jsonb, p_path jsonpath, p_lookups jsonb,
                              p_least bigint default 20000, p_dim int default null)
returns table(total bigint, share float8, reach float8, terms int4[]) language plpgsql stable rows 1
set search_path = pg_catalog, public, pg_temp as $f$
-- A guess: what else stands in the path may be in an `or` with the equality, and then no index finds it. All that hangs on it is time.
declare indexed bool; equality bool := p_path::text ~ '==' and p_path::text !~ '[!<>]|like_regex|starts with|exists *\([^?)]*\)';
  rows jsonb[]; one jsonb; way text[]; low jsonb; high jsonb; hit float8; lookup jsonb; before float8;
begin
  select coalesce(sum(t.chunks), 0) into total from lex_totals t where t.tenant_id = p_tenant and t.index_id = p_index;
  select i.vector_index = 'hnsw' into indexed from search_index i where i.tenant_id = p_tenant and i.id = p_index;
  share := 1;
  reach := 1;
  if total <= p_least and not coalesce(indexed, false) then return next; return; end if;
  if p_dim is null then
    select coalesce(avg((s.narrow and s.path)::int), 1), coalesce(avg((not indexed or s.narrow and (s.path or not equality))::int), 1) into share, reach
      from (select l.scope_key = any(p_scopes) and (p_contains is null or l.metadata @> p_contains) as narrow,
                   p_path is null or coalesce(l.metadata @@ p_path, false) as path
              from chunk_lexical l where l.tenant_id = p_tenant and l.index_id = p_index order by l.chunk_id limit 500) s;
  else
    select coalesce(avg((s.narrow and s.path)::int), 1), coalesce(avg((not indexed or s.narrow and (s.path or not equality))::int), 1) into share, reach
      from (select e.scope_key = any(p_scopes) and (p_contains is null or e.metadata @> p_contains) as narrow,
                   p_path is null or coalesce(e.metadata @@ p_path, false) as path
              from chunk_embedding e where e.tenant_id = p_tenant and e.index_id = p_index and e.dim = p_dim order by e.chunk_id limit 500) s;
  end if;
  -- What was promoted by an older version has no index of terms before the worker has made it; without one, terms would be made for every row.
  if p_lookups is null or not indexed or reach * total <= 2000 or 2 > (select count(*) from unnest(array['filter', 'filterl']) lane
      join pg_index x on x.indexrelid = to_regclass('public.' || lane || '_' || replace(p_index::text, '-', '')) and x.indisvalid) then
    return next;
    return;
  end if;
  if p_dim is null then
    rows := array(select l.metadata from chunk_lexical l where l.tenant_id = p_tenant and l.index_id = p_index order by l.chunk_id limit 500);
  else
    rows := array(select e.metadata from chunk_embedding e where e.tenant_id = p_tenant and e.index_id = p_index and e.dim = p_dim order by e.chunk_id limit 500);
  end if;
  before := reach;
  for one in select * from jsonb_array_elements(p_lookups) loop
    way := array(select jsonb_array_elements_text(one -> 'path'));
    -- As jsonb orders them null is below and an object above all scalars.
    low := coalesce(one -> 'equal', one -> 'low', 'null');
    high := coalesce(one -> 'equal', one -> 'high', '{}');
    select avg(coalesce((m #> way) between low and high, false)::int) into hit from unnest(rows) m;
    if hit <= least(reach, 0.3) then
      lookup := one;
      reach := hit;
    end if;
  end loop;
  if lookup is not null then
    terms := lookup_terms(lookup);
    -- Values that share a key, and rows with very many of them, are found by more than what they are: what finds most rows is no use, and the
    -- planner would rather make every row's terms than look up so many.
    select avg((filter_terms(m) && terms)::int) into hit from unnest(rows[1:16]) m;
    if hit > 0.5 then
      terms := null;
      reach := before;
    end if;
  end if;
  return next;
end $f$;

-- The dense lane: k rows whenever k exist, through the HNSW or exactly; of what the terms of a lookup find where there are some.
create function dense_lane(p_tenant uuid, p_index uuid, p_query halfvec, p_dim int, p_scopes uuid[], p_contains jsonb, p_path jsonpath,
                           p_k int, p_total bigint, p_share float8, p_reach float8, p_any int4[])
returns table(chunk_id uuid, score real) language plpgsql stable rows 100
set search_path = pg_catalog, public, pg_temp as $f$
declare way text; ids uuid[]; scores real[];
begin
  if p_scopes is null or p_k is null or p_k < 1 or p_k > 1000 or vector_dims(p_query) is distinct from p_dim then
    raise invalid_parameter_value using message = 'scopes, 1 <= k <= 1000, a query of dim dimensions';
  end if;
  if prefers_hnsw(p_total, p_share, p_reach, p_k) then
    select i.vector_index into way from search_index i where i.tenant_id = p_tenant and i.id = p_index;
    if way = 'hnsw' then
      select array_agg(h.chunk_id order by h.ord), array_agg(h.score order by h.ord) into ids, scores
        from hnsw_search(p_tenant, p_index, p_query, p_dim, p_scopes, p_contains, p_path, p_k, p_share) with ordinality h(chunk_id, score, ord);
      if cardinality(ids) >= p_k then return query select u.id, u.s from unnest(ids, scores) u(id, s); return; end if;
    end if;                                                      -- short: the exact way answers
  end if;
  -- "+ 0.0" keeps the planner off any HNSW; one expression, so that the distance is computed once a row. `is true` keeps what would have every row's
  -- terms computed again out of the index condition.
  if p_any is not null and p_reach * p_total > 2000 and p_share * 2 > p_reach then
    -- They are many, and most of them pass: only the nearest of it are asked whether they do. Where k of them do, those are the nearest k of all.
    execute 'select array_agg(x.chunk_id order by x.d, x.chunk_id), array_agg((1 - x.d)::real order by x.d, x.chunk_id)
        from (select e.chunk_id, (e.embedding <=> $1) + 0.0 as d from chunk_embedding e
              where e.tenant_id = $2 and e.index_id = $3 and e.dim = $7 and filter_terms(e.metadata) && $8 and (e.scope_key = any($4)) is true
              order by d, e.chunk_id limit $9) x
        cross join lateral (select e.metadata from chunk_embedding e
                            where e.tenant_id = $2 and e.index_id = $3 and e.dim = $7 and e.chunk_id = x.chunk_id offset 0) m
        where ($5 is null or m.metadata @> $5) and ($6 is null or m.metadata @@ $6)'
      into ids, scores using p_query, p_tenant, p_index, p_scopes, p_contains, p_path, p_dim, p_any, (1.2 * p_k * p_reach / p_share)::int + 32;
    if cardinality(ids) >= p_k then return query select u.id, u.s from unnest(ids, scores) u(id, s) limit p_k; return; end if;
  end if;
  if p_any is not null then
    return query execute 'select x.chunk_id, (1 - x.d)::real from (select e.chunk_id, (e.embedding <=> $1) + 0.0 as d from chunk_embedding e
        where e.tenant_id = $2 and e.index_id = $3 and e.dim = $8 and filter_terms(e.metadata) && $9
          and (e.scope_key = any($4)) is true and ($5 is null or (e.metadata @> $5) is true) and ($6 is null or (e.metadata @@ $6) is true)
        order by d, e.chunk_id limit $7) x' using p_query, p_tenant, p_index, p_scopes, p_contains, p_path, p_k, p_dim, p_any;
    return;
  end if;
  return query execute 'select x.chunk_id, (1 - x.d)::real from (select e.chunk_id, (e.embedding <=> $1) + 0.0 as d from chunk_embedding e
      where e.tenant_id = $2 and e.index_id = $3 and e.dim = $8 and e.scope_key = any($4) and ($5 is null or e.metadata @> $5) and ($6 is null or e.metadata @@ $6)
      order by d, e.chunk_id limit $7) x' using p_query, p_tenant, p_index, p_scopes, p_contains, p_path, p_k, p_dim;
end $f$;

-- With more memory than the default the pages that an index finds are known row by row: of the others every row's terms would be made again.
create function dense_search(p_tenant uuid, p_index uuid, p_query halfvec, p_dim int, p_scopes uuid[], p_contains jsonb, p_path jsonpath,
                             p_k int, p_lookups jsonb default null)
returns table(chunk_id uuid, score real) language plpgsql stable security definer rows 100
set search_path = pg_catalog, public, pg_temp set plan_cache_mode = auto set work_mem = '32MB' as $f$
begin
  perform check_tenant(p_tenant);
  return query select x.chunk_id, x.score from search_sample(p_tenant, p_index, p_scopes, p_contains, p_path, p_lookups, p_dim => p_dim) s,
    dense_lane(p_tenant, p_index, p_query, p_dim, p_scopes, p_contains, p_path, p_k, s.total, s.share, s.reach, s.terms) x;
end $f$;

-- The lexical lane: k rows by BM25, exactly.
create function lexical_lane(p_tenant uuid, p_index uuid, p_terms int4[], p_keys int4[], p_scopes uuid[], p_contains jsonb, p_path jsonpath,
                             p_k int, p_total bigint, p_share float8, p_reach float8, p_any int4[])
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
          cross join lateral (select ln(1 + (p_total - f.df + 0.5) / (f.df + 0.5))::float8 as idf offset 0) i
          where f.df > 0) x;
  n := coalesce(cardinality(w), 0);
  if n = 0 then return; end if;
  if p_reach * p_total <= 5000 then
    -- Few rows: score them all (0.7 us each; `keys && ...` as a filter costs four times that). Written with =, so that the planner may start
    -- from the filter's or the scopes' index.
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

create function bm25_search(p_tenant uuid, p_index uuid, p_terms int4[], p_keys int4[], p_scopes uuid[], p_contains jsonb, p_path jsonpath, p_k int,
                            p_lookups jsonb default null)
returns table(chunk_id uuid, score real) language plpgsql stable security definer rows 100
set search_path = pg_catalog, public, pg_temp set plan_cache_mode = auto set work_mem = '32MB' as $f$
begin
  perform check_tenant(p_tenant);
  return query select x.chunk_id, x.score from search_sample(p_tenant, p_index, p_scopes, p_contains, p_path, p_lookups) s,
    lexical_lane(p_tenant, p_index, p_terms, p_keys, p_scopes, p_contains, p_path, p_k, s.total, s.share, s.reach, s.terms) x;
end $f$;

-- Both lanes in one call and one snapshot. similarity is the cosine with the query on both lanes' rows. A null query, 0 of its rows or no terms leave
-- that lane out; with a query the lexical one has its cosines all the same.
create function hybrid_search(p_tenant uuid, p_index uuid, p_query halfvec, p_dim int, p_terms int4[], p_keys int4[], p_scopes uuid[],
                                         p_contains jsonb, p_path jsonpath, p_dense int, p_lexical int, p_lookups jsonb default null)
returns table(lane text, chunk_id uuid, score real, rank int, similarity real) language plpgsql stable security definer
set search_path = pg_catalog, public, pg_temp set plan_cache_mode = auto set work_mem = '32MB' as $f$
declare sample record; ids uuid[]; scores real[];
begin
  perform check_tenant(p_tenant);
  select * into sample from search_sample(p_tenant, p_index, p_scopes, p_contains, p_path, p_lookups, p_dim => case when cardinality(p_terms) > 0 then null else p_dim end);
  if p_query is not null and p_dense is distinct from 0 then
    return query select 'dense', d.chunk_id, d.score, d.rank::int, d.score
      from dense_lane(p_tenant, p_index, p_query, p_dim, p_scopes, p_contains, p_path, p_dense, sample.total, sample.share, sample.reach, sample.terms)
           with ordinality d(chunk_id, score, rank);
  end if;
  if cardinality(p_terms) > 0 then
    select array_agg(l.chunk_id order by l.rank), array_agg(l.score order by l.rank) into ids, scores
      from lexical_lane(p_tenant, p_index, p_terms, p_keys, p_scopes, p_contains, p_path, p_lexical, sample.total, sample.share, sample.reach, sample.terms)
           with ordinality l(chunk_id, score, rank);
    if p_query is null then                                      -- nothing of the dense lane is touched: it may be what fails
      return query select 'lexical', l.id, l.s, l.r::int, null::real from unnest(ids, scores) with ordinality l(id, s, r);
      return;
    end if;
    return query execute 'select ''lexical'', l.id, l.score, l.rank::int, (select (1 - (e.embedding <=> $5))::real from chunk_embedding e
        where e.tenant_id = $3 and e.index_id = $4 and e.dim = $6 and e.chunk_id = l.id) from unnest($1, $2) with ordinality l(id, score, rank)'
      using ids, scores, p_tenant, p_index, p_query, p_dim;      -- a scalar subquery: look-ups by key, never a join's scan
  end if;
end $f$;

create function search_plan(p_tenant uuid, p_index uuid, p_scopes uuid[], p_contains jsonb, p_path jsonpath, p_k int,
                            p_lookups jsonb default null)
returns table(chunks bigint, share float8, dense text, lexical text) language plpgsql stable security definer rows 1
set search_path = pg_catalog, public, pg_temp set plan_cache_mode = auto set work_mem = '32MB' as $f$
declare way text;
begin
  perform check_tenant(p_tenant);
  select i.vector_index into way from search_index i where i.tenant_id = p_tenant and i.id = p_index;
  return query select s.total, s.share,
    case when way = 'hnsw' and prefers_hnsw(s.total, s.share, s.reach, p_k) then 'index' else 'exact' end,
    case when s.total <= 5000 or (s.total > 20000 and s.reach * s.total <= 5000) then 'all' else 'pruned' end
    from search_sample(p_tenant, p_index, p_scopes, p_contains, p_path, p_lookups, 0) s;
end $f$;

revoke all on function hybrid_search, dense_search, bm25_search, search_plan, dense_lane, lexical_lane, search_sample,
  lookup_terms from public;
grant execute on function hybrid_search, dense_search, bm25_search, search_plan to carrel_app;
reset role;
revoke create on schema public from carrel_search;
"""


def upgrade() -> None:
    run_script(FUNCTIONS)
