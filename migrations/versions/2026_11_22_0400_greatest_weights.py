"""What a term can add at most, and no wide vector search for a filter that lets all through.

Revision ID: 0023
Revises: 0022

BM25 leaves out rows that cannot reach the k-th best score. It took a term's idf for the most that the term adds; the
greatest weight that the term has in the index, kept beside its frequency, is a tighter bound: half as many rows are
read. Rows of lex_df that are there already get 1, which is a bound for any term.
"""

from app.db.migrate import run_script

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

TABLE = """
alter table lex_df add column top real not null default 1;
drop index lex_df_key;
create index lex_df_key on lex_df (tenant_id, index_id, key) include (df, top);
"""

FUNCTIONS = r"""
do $$ begin perform vector_dims('[1]'::halfvec); end $$;   -- as in 0002: before that, `set hnsw.*` is refused
grant create on schema public to carrel_search;  -- while it creates its functions
set role carrel_search;
drop function hnsw_search;

create or replace function lexical_lane(p_tenant uuid, p_index uuid, p_terms int4[], p_keys int4[], p_scopes uuid[], p_contains jsonb, p_path jsonpath,
                             p_k int, p_total bigint, p_share float8, p_reach float8)
returns table(chunk_id uuid, score real) language plpgsql stable rows 100
set search_path = pg_catalog, public, pg_temp as $f$
declare w float8[]; ks int4[]; df int[]; suf float8[]; q sparsevec; n int; e int := 0; l int := 0; rows bigint := 0;
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
    return query execute 'select x.chunk_id, (-x.d)::real from (select l.chunk_id, (l.terms <#> $1) + 0.0 as d from chunk_lexical l
        where l.tenant_id = $2 and l.index_id = $3 and l.scope_key = any($4) and ($5 is null or l.metadata @> $5) and ($6 is null or l.metadata @@ $6)
        order by d, l.chunk_id limit $7) x where x.d < 0'
      using q, p_tenant, p_index, p_scopes, p_contains, p_path, p_k;
    return;
  end if;
  -- `is not distinct from` and `is true` keep the planner from ANDing a bitmap of the whole index's btree range, or of most of its rows, to the
  -- GIN's. Where the filter's own index finds a quarter at most, ANDing that one is what makes the rows few.
  conditions := case when p_contains is not null and p_reach <= 0.25
    then ' and l.tenant_id = $2 and l.index_id = $3 and l.metadata @> $5'
    else ' and l.tenant_id is not distinct from $2 and l.index_id is not distinct from $3 and ($5 is null or (l.metadata @> $5) is true)' end;
  suf := array_fill(0::float8, array[n + 1]);
  for i in reverse n..1 loop suf[i] := suf[i + 1] + w[i]; end loop;
  -- In rounds. First the terms that can add most, enough of them for theta, the k-th best score so far, to mean something; then those that can
  -- reach theta alone (a term adds at most its idf times the greatest weight it has); last, rows where several of the others reach it together.
  while suf[e + 1] > theta loop
    if w[e + 1] > theta then
      l := e + 1;
      rows := rows + df[l];
      while l < n and case when e = 0 then (rows + df[l + 1]) * p_share <= greatest(600, 10 * p_k) else w[l + 1] > theta end loop
        l := l + 1;
        rows := rows + df[l];
      end loop;
      arms := format(' or l.keys && %L::int4[]', ks[e + 1:l]);
    else
      l := n;
      arms := '';
      for i in e + 1..n loop
        exit when suf[i] <= theta;
        s := '{}';
        for j in i + 1..n loop exit when w[i] + suf[j] <= theta; s := s || ks[j]; end loop;
        if s <> '{}' then arms := arms || format(' or (l.keys @> %L::int4[] and l.keys && %L::int4[])', array[ks[i]], s); end if;
      end loop;
    end if;
    exit when arms = '';
    -- Terms share rows: what two rounds find has the same distance, and `union` keeps it once.
    execute 'select coalesce(array_agg(x.id order by x.d, x.id), ''{}''), coalesce(array_agg(x.d order by x.d, x.id), ''{}'') from (
        select * from (select l.chunk_id, (l.terms <#> $1) + 0.0 as d from chunk_lexical l where (' || substr(arms, 5) || ')' || conditions || '
            and (l.scope_key = any($4)) is true and ($6 is null or (l.metadata @@ $6) is true) order by d, l.chunk_id limit $7) r
        union select * from unnest($8, $9) order by 2, 1 limit $7) x(id, d)'
      into ids, ds using q, p_tenant, p_index, p_scopes, p_contains, p_path, p_k, ids, ds;
    theta := coalesce(-ds[p_k], 0) * (1 - 1e-6);   -- float4 weights: a hair lower, never a hair too high
    e := l;
  end loop;
  return query select u.id, (-u.d)::real from unnest(ids, ds) u(id, d) where u.d < 0;
end $f$;

-- As before, but a filter that lets all through needs no wide search. One that keeps half does (recall@10 0.974 at 150, 0.985 at 400).
create function hnsw_search(p_tenant uuid, p_index uuid, p_query halfvec, p_dim int, p_scopes uuid[], p_contains jsonb, p_path jsonpath, p_k int, p_share float8)
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

create or replace function dense_lane(p_tenant uuid, p_index uuid, p_query halfvec, p_dim int, p_scopes uuid[], p_contains jsonb, p_path jsonpath,
                           p_k int, p_total bigint, p_share float8)
returns table(chunk_id uuid, score real) language plpgsql stable rows 100
set search_path = pg_catalog, public, pg_temp as $f$
declare way text; ids uuid[]; scores real[];
begin
  if p_scopes is null or p_k is null or p_k < 1 or p_k > 1000 or vector_dims(p_query) is distinct from p_dim then
    raise invalid_parameter_value using message = 'scopes, 1 <= k <= 1000, a query of dim dimensions';
  end if;
  if p_share * p_total > 5000 and p_k <= 10000 * p_share then
    select i.vector_index into way from search_index i where i.tenant_id = p_tenant and i.id = p_index;
    if way = 'hnsw' then
      select array_agg(h.chunk_id order by h.ord), array_agg(h.score order by h.ord) into ids, scores
        from hnsw_search(p_tenant, p_index, p_query, p_dim, p_scopes, p_contains, p_path, p_k, p_share) with ordinality h(chunk_id, score, ord);
      if cardinality(ids) >= p_k then return query select u.id, u.s from unnest(ids, scores) u(id, s); return; end if;
    end if;                                                      -- short: the exact way answers
  end if;
  -- "+ 0.0" keeps the planner off any HNSW; one expression, so that the distance is computed once a row
  return query execute 'select x.chunk_id, (1 - x.d)::real from (select e.chunk_id, (e.embedding <=> $1) + 0.0 as d from chunk_embedding e
      where e.tenant_id = $2 and e.index_id = $3 and e.dim = $8 and e.scope_key = any($4) and ($5 is null or e.metadata @> $5) and ($6 is null or e.metadata @@ $6)
      order by d, e.chunk_id limit $7) x' using p_query, p_tenant, p_index, p_scopes, p_contains, p_path, p_k, p_dim;
end $f$;

revoke all on function hnsw_search from public;
reset role;
revoke create on schema public from carrel_search;
"""


def upgrade() -> None:
    run_script(TABLE + FUNCTIONS)
