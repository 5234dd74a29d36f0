"""What a key narrowed to a user is told of words counts the chunks that it sees.

Revision ID: 0052
Revises: 0051

A table of its own, filled from the rows that are there in one statement, which reads chunk_lexical once; nobody waits
for it but who adds, changes or removes chunks. What a worker of before writes after it is not counted apart: until it
is deleted or indexed anew, narrowed keys weigh its words by all chunks.
"""

from app.db.migrate import run_script, walls

revision = "0052"
down_revision = "0051"
branch_labels = None
depends_on = None

TABLES = """
-- Of the chunks that a key narrowed to a user does not see unless they are its own: in how many the key is, by level, and of all these levels
-- together under all_private_levels(). Without a key: how many chunks there are. Changes, as in lex_df, which maintenance sums up.
create table private_frequency (
  tenant_id uuid not null, index_id uuid not null, scope_key uuid not null, key int4, chunks int not null);
create index private_frequency_key on private_frequency (tenant_id, index_id, scope_key, key) include (chunks);

-- The levels of everybody: shared and tenant, as app/documents/scopes.py makes their keys.
create function is_open_level(p_scope uuid) returns bool language sql immutable parallel safe
set search_path = pg_catalog, public, pg_temp as $f$
  select p_scope in ('31422a18-ac5a-5dd1-96d8-89a187afeff9', '7685c63c-898a-5fdf-9657-6dbb2c1d163f')
$f$;
create function all_private_levels() returns uuid language sql immutable parallel safe
set search_path = pg_catalog, public, pg_temp as $f$
  select '00000000-0000-0000-0000-000000000000'::uuid
$f$;
revoke all on function is_open_level, all_private_levels from public;
grant execute on function is_open_level, all_private_levels to carrel_app, carrel_search;
"""

ROWS = """
lock table chunk_lexical in share row exclusive mode;
insert into private_frequency (tenant_id, index_id, scope_key, key, chunks)
select n.tenant_id, n.index_id, s.scope_key, n.key, sum(n.chunks)
  from (select l.tenant_id, l.index_id, l.scope_key, k.key, count(*) as chunks
          from chunk_lexical l cross join lateral (select unnest(l.keys) union all select null) k(key)
         where not is_open_level(l.scope_key) group by l.tenant_id, l.index_id, l.scope_key, k.key) n
 cross join lateral (values (n.scope_key), (all_private_levels())) s(scope_key)
 group by n.tenant_id, n.index_id, s.scope_key, n.key;
"""

SEARCH = """
create policy search on private_frequency for select to carrel_search using (true);
grant select on private_frequency to carrel_search;
"""

FUNCTIONS = r"""
grant create on schema public to carrel_search;  -- while it replaces its functions
set role carrel_search;
-- The lexical lane: k rows by BM25, exactly. With p_seen, a term weighs what it does in the p_seen chunks of p_scopes and of the open levels; else in all.
drop function lexical_lane;
create function lexical_lane(p_tenant uuid, p_index uuid, p_terms int4[], p_keys int4[], p_scopes uuid[], p_contains jsonb, p_path jsonpath,
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

drop function lexical_near;
create function lexical_near(p_tenant uuid, p_index uuid, p_query halfvec, p_others halfvec[], p_dim int, p_least float8, p_terms int4[], p_keys int4[],
                             p_scopes uuid[], p_contains jsonb, p_path jsonpath, p_k int, p_total bigint, p_seen bigint)
returns table(chunk_id uuid, score real, similarity real) language plpgsql stable rows 100
set search_path = pg_catalog, public, pg_temp as $f$
declare q sparsevec; nearest text;
begin
  if p_scopes is null or p_k is null or p_k < 1 or p_k > 1000 or cardinality(p_terms) is distinct from cardinality(p_keys) then
    raise invalid_parameter_value using message = 'scopes, 1 <= k <= 1000, as many keys as terms';
  end if;
  select ('{' || string_agg((x.term + 1) || ':' || x.idf, ',' order by x.term) || '}/1000000000')::sparsevec into q
    from (select t.term, ln(1 + (greatest(coalesce(p_seen, p_total), s.df) - s.df + 0.5) / (s.df + 0.5))::float8 as idf
          from (select distinct u.term, u.k from unnest(p_terms, p_keys) u(term, k)) t
          cross join lateral (select sum(d.df)::int df from lex_df d where d.tenant_id = p_tenant and d.index_id = p_index and d.key = t.k) f
          cross join lateral (select case when p_seen is null then f.df else greatest(0, f.df + (
              select coalesce(sum(case when x.scope_key = all_private_levels() then -x.chunks else x.chunks end), 0)::int from private_frequency x
               where x.tenant_id = p_tenant and x.index_id = p_index and x.scope_key = any(p_scopes || all_private_levels()) and x.key = t.k)) end as df
            offset 0) s
          where f.df > 0) x;
  if q is null then return; end if;
  nearest := case when cardinality(p_others) > 0 then '(select max(1 - cosine_distance(e.embedding, o)) from unnest($12) o)'
                  else '1 - cosine_distance(e.embedding, $2)' end;
  -- `offset 0` keeps the look-ups by key: a planner whose statistics know nothing of the index would compare every row with every other.
  return query execute 'select x.chunk_id, (-x.d)::real, (1 - cosine_distance(x.embedding, $2))::real from (
      select l.chunk_id, (l.terms <#> $1) + 0.0 as d, e.embedding
        from chunk_lexical l
        left join lateral (select e.embedding, ' || nearest || ' as s from chunk_embedding e
                           where e.tenant_id = $3 and e.index_id = $4 and e.dim = $5 and e.chunk_id = l.chunk_id offset 0) e on true
       where l.tenant_id = $3 and l.index_id = $4 and l.keys && $7 and l.scope_key = any($8)
         and ($9 is null or l.metadata @> $9) and ($10 is null or l.metadata @@ $10) and (e.s is null or e.s >= $6)
       order by d, l.chunk_id limit $11) x where x.d < 0'
    using q, p_query, p_tenant, p_index, p_dim, p_least, p_keys, p_scopes, p_contains, p_path, p_k, p_others;
end $f$;
revoke all on function lexical_near from public;

-- As before; p_narrowed is a key that is narrowed to a user: nothing that it is told counts chunks that it does not see.
drop function hybrid_search;
create function hybrid_search(p_tenant uuid, p_index uuid, p_query halfvec, p_dim int, p_terms int4[], p_keys int4[], p_scopes uuid[],
                              p_contains jsonb, p_path jsonpath, p_dense int, p_lexical int, p_lookups jsonb default null,
                              p_cosines int default null, p_least float8 default null, p_others halfvec[] default null, p_narrowed bool default false)
returns table(lane text, chunk_id uuid, score real, rank int, similarity real) language plpgsql stable security definer
set search_path = pg_catalog, public, pg_temp set plan_cache_mode = auto set work_mem = '32MB' as $f$
declare sample record; seen bigint; ids uuid[]; scores real[];
begin
  perform check_tenant(p_tenant);
  select * into sample from search_sample(p_tenant, p_index, p_scopes, p_contains, p_path, p_lookups, p_dim => case when cardinality(p_terms) > 0 then null else p_dim end);
  if p_narrowed then
    select sample.total + coalesce(sum(case when x.scope_key = all_private_levels() then -x.chunks else x.chunks end), 0) into seen from private_frequency x
     where x.tenant_id = p_tenant and x.index_id = p_index and x.scope_key = any(p_scopes || all_private_levels()) and x.key is null;
  end if;
  if p_query is not null and p_dense is distinct from 0 then
    return query select 'dense', d.chunk_id, d.score, d.rank::int, d.score
      from dense_lane(p_tenant, p_index, p_query, p_dim, p_scopes, p_contains, p_path, p_dense, sample.total, sample.share, sample.reach, sample.terms)
           with ordinality d(chunk_id, score, rank);
  end if;
  if cardinality(p_terms) > 0 and p_least is not null then
    return query select 'lexical', n.chunk_id, n.score, n.rank::int, n.similarity
      from lexical_near(p_tenant, p_index, p_query, p_others, p_dim, p_least, p_terms, p_keys, p_scopes, p_contains, p_path, p_lexical, sample.total, seen)
           with ordinality n(chunk_id, score, similarity, rank);
  elsif cardinality(p_terms) > 0 then
    select array_agg(l.chunk_id order by l.rank), array_agg(l.score order by l.rank) into ids, scores
      from lexical_lane(p_tenant, p_index, p_terms, p_keys, p_scopes, p_contains, p_path, p_lexical, sample.total, sample.share, sample.reach, sample.terms, seen)
           with ordinality l(chunk_id, score, rank);
    if p_query is null then                                      -- nothing of the dense lane is touched: it may be what fails
      return query select 'lexical', l.id, l.s, l.r::int, null::real from unnest(ids, scores) with ordinality l(id, s, r);
      return;
    end if;
    return query execute 'select ''lexical'', l.id, l.score, l.rank::int, case when l.rank <= $7 then (select (1 - (e.embedding <=> $5))::real
        from chunk_embedding e where e.tenant_id = $3 and e.index_id = $4 and e.dim = $6 and e.chunk_id = l.id) end from unnest($1, $2) with ordinality l(id, score, rank)'
      using ids, scores, p_tenant, p_index, p_query, p_dim, coalesce(p_cosines, p_lexical);  -- a scalar subquery: look-ups by key, never a join's scan
  end if;
end $f$;
revoke all on function hybrid_search from public;
grant execute on function hybrid_search to carrel_app;
revoke all on function lexical_lane from public;
reset role;
revoke create on schema public from carrel_search;
"""


def upgrade() -> None:
    run_script(TABLES)
    run_script(walls("private_frequency"))
    for script in (SEARCH, ROWS, FUNCTIONS):
        run_script(script)
