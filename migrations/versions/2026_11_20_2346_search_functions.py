"""Search functions: BM25, the dense lane, and both in one call.

Revision ID: 0002
Revises: 0001

All are SECURITY DEFINER, owned by carrel_search, take typed arguments only, check the tenant themselves, and have a
fixed search_path with pg_temp last (left out, it would be searched first). What must be planned with its values known
(partial indexes, null filters) goes through EXECUTE of a constant string.

BM25 is Lucene's (k1 and b are baked into the stored weights); N and document frequencies count the whole index,
whatever the filter. The two-pass top-k keeps it exact: the first pass over the rarest terms gives a lower bound of the
k-th best score, the second reads only rows whose matched terms can add up to it.
"""

from app.db.migrate import run_script

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

LEXICAL = r"""
grant create on schema public to carrel_search;  -- while it creates its functions
set role carrel_search;
create function check_tenant(p_tenant uuid) returns void language plpgsql stable
set search_path = pg_catalog, public, pg_temp as $f$
begin
  if p_tenant is null or current_tenant() is null or (p_tenant <> current_tenant() and p_tenant <> system_tenant()) then
    raise insufficient_privilege using message = 'tenant is not the current one';
  end if;
end $f$;

-- Share of an index's rows that scopes and filter let through, from the first 500 in key order. Chunk ids are hashes, so key order is a random sample.
create function search_share(p_tenant uuid, p_index uuid, p_scopes uuid[], p_contains jsonb, p_path jsonpath)
returns float8 language plpgsql stable security definer
set search_path = pg_catalog, public, pg_temp set plan_cache_mode = auto as $f$
declare share float8;
begin
  perform check_tenant(p_tenant);
  select avg((s.scope_key = any(p_scopes) and (p_contains is null or s.metadata @> p_contains) and (p_path is null or coalesce(s.metadata @@ p_path, false)))::int)
    into share
    from (select l.scope_key, l.metadata from chunk_lexical l where l.tenant_id = p_tenant and l.index_id = p_index order by l.chunk_id limit 500) s;
  return coalesce(share, 1);
end $f$;

create function bm25_search(p_tenant uuid, p_index uuid, p_terms int4[], p_keys int4[], p_scopes uuid[], p_contains jsonb, p_path jsonpath,
                            p_k int, p_share float8 default null)
returns table(chunk_id uuid, score real) language plpgsql stable security definer rows 100
set search_path = pg_catalog, public, pg_temp set plan_cache_mode = auto as $f$
declare total bigint; share float8 := p_share; w float8[]; ks int4[]; df int[]; suf float8[]; q sparsevec; n int; e int := 0; tot bigint := 0;
  theta float8; got int; arms text := ''; alone int4[] := '{}'; s int4[]; i int; j int;
begin
  perform check_tenant(p_tenant);
  if p_scopes is null or p_k is null or p_k < 1 or p_k > 1000 or cardinality(p_terms) is distinct from cardinality(p_keys) then
    raise invalid_parameter_value using message = 'scopes, 1 <= k <= 1000, as many keys as terms';
  end if;
  select sum(t.chunks) into total from lex_totals t where t.tenant_id = p_tenant and t.index_id = p_index;
  if coalesce(total, 0) = 0 then return; end if;
  select array_agg(x.w order by x.w desc, x.term), array_agg(x.k order by x.w desc, x.term), array_agg(x.df order by x.w desc, x.term),
         ('{' || string_agg((x.term + 1) || ':' || x.w, ',' order by x.term) || '}/1000000000')::sparsevec
    into w, ks, df, q
    -- A look-up for each term: as a join, a planner without statistics reads the whole index's frequencies first.
    from (select t.term, t.k, f.df, ln(1 + (total - f.df + 0.5) / (f.df + 0.5))::float8 w
          from (select distinct u.term, u.k from unnest(p_terms, p_keys) u(term, k)) t
          cross join lateral (select sum(d.df)::int df from lex_df d
                              where d.tenant_id = p_tenant and d.index_id = p_index and d.key = t.k) f
          where f.df > 0) x;
  n := coalesce(cardinality(w), 0);
  if n = 0 then return; end if;
  if total > 20000 then share := coalesce(share, search_share(p_tenant, p_index, p_scopes, p_contains, p_path)); else share := 1; end if;
  if share * total <= 5000 or total <= 5000 then
    -- Few rows pass: score them all (0.7 us each; `keys && ...` as a filter costs four times that). Written with =, so that the planner may start
    -- from the filter's or the scopes' index.
    return query execute 'select x.chunk_id, (-x.d)::real from (select l.chunk_id, (l.terms <#> $1) + 0.0 as d from chunk_lexical l
        where l.tenant_id = $2 and l.index_id = $3 and l.scope_key = any($4) and ($5 is null or l.metadata @> $5) and ($6 is null or l.metadata @@ $6)
        order by d, l.chunk_id limit $7) x where x.d < 0'
      using q, p_tenant, p_index, p_scopes, p_contains, p_path, p_k;
    return;
  end if;
  suf := array_fill(0::float8, array[n + 1]);
  for i in reverse n..1 loop suf[i] := suf[i + 1] + w[i]; end loop;
  -- Pass 1: the rarest terms; theta is a lower bound of the k-th best score among the rows that pass the filter.
  while e < n and (e = 0 or (tot + df[e + 1]) * share <= greatest(600, 10 * p_k)) loop e := e + 1; tot := tot + df[e]; end loop;
  -- `is not distinct from` and `is true` keep the planner from ANDing a bitmap of the whole index's btree range to the GIN's.
  execute 'select count(*), max(x.d) from (select (l.terms <#> $1) + 0.0 as d from chunk_lexical l where l.keys && $8
      and l.tenant_id is not distinct from $2 and l.index_id is not distinct from $3 and (l.scope_key = any($4)) is true
      and ($5 is null or (l.metadata @> $5) is true) and ($6 is null or (l.metadata @@ $6) is true) order by d limit $7) x'
    into got, theta using q, p_tenant, p_index, p_scopes, p_contains, p_path, p_k, ks[1:e];
  theta := case when got < p_k then 0 else -theta * (1 - 1e-6) end;   -- float4 weights: a hair lower, never a hair too high
  -- Pass 2: only rows whose matched terms can add up to theta (a term adds less than its idf because tf/(tf+K) < 1).
  for i in 1..n loop
    exit when suf[i] <= theta;
    if w[i] > theta then alone := alone || ks[i];
    else
      s := '{}';
      for j in i + 1..n loop exit when w[i] + suf[j] <= theta; s := s || ks[j]; end loop;
      if s <> '{}' then arms := arms || format(' or (l.keys @> %L::int4[] and l.keys && %L::int4[])', array[ks[i]], s); end if;
    end if;
  end loop;
  if alone <> '{}' then arms := format(' or l.keys && %L::int4[]', alone) || arms; end if;
  if arms = '' then arms := format(' or l.keys && %L::int4[]', ks[1:e]); end if;
  return query execute 'select x.chunk_id, (-x.d)::real from (select l.chunk_id, (l.terms <#> $1) + 0.0 as d from chunk_lexical l where (' || substr(arms, 5) || ')
      and l.tenant_id is not distinct from $2 and l.index_id is not distinct from $3 and (l.scope_key = any($4)) is true
      and ($5 is null or (l.metadata @> $5) is true) and ($6 is null or (l.metadata @@ $6) is true) order by d, l.chunk_id limit $7) x'
    using q, p_tenant, p_index, p_scopes, p_contains, p_path, p_k;
end $f$;

revoke all on function check_tenant, search_share, bm25_search from public;
grant execute on function bm25_search to carrel_app;
reset role;
"""

DENSE = r"""
do $$ begin perform vector_dims('[1]'::halfvec); end $$;   -- loads the library: before that, `set hnsw.*` is refused to a role that is no superuser
set role carrel_search;
create function exact_search(p_tenant uuid, p_index uuid, p_query halfvec, p_dim int, p_scopes uuid[], p_contains jsonb, p_path jsonpath, p_k int)
returns table(chunk_id uuid, score real) language plpgsql stable security definer rows 100
set search_path = pg_catalog, public, pg_temp set plan_cache_mode = auto as $f$
begin
  perform check_tenant(p_tenant);
  if p_scopes is null or p_k is null or p_k < 1 or p_k > 1000 or vector_dims(p_query) is distinct from p_dim then
    raise invalid_parameter_value using message = 'scopes, 1 <= k <= 1000, a query of dim dimensions';
  end if;
  -- "+ 0.0" keeps the planner off any HNSW; one expression, so that the distance is computed once a row
  return query execute 'select x.chunk_id, (1 - x.d)::real from (select e.chunk_id, (e.embedding <=> $1) + 0.0 as d from chunk_embedding e
      where e.tenant_id = $2 and e.index_id = $3 and e.dim = $8 and e.scope_key = any($4) and ($5 is null or e.metadata @> $5) and ($6 is null or e.metadata @@ $6)
      order by d, e.chunk_id limit $7) x' using p_query, p_tenant, p_index, p_scopes, p_contains, p_path, p_k, p_dim;
end $f$;

create function hnsw_search(p_tenant uuid, p_index uuid, p_query halfvec, p_dim int, p_scopes uuid[], p_contains jsonb, p_path jsonpath, p_k int)
returns table(chunk_id uuid, score real) language plpgsql stable security definer rows 100
set search_path = pg_catalog, public, pg_temp set plan_cache_mode = auto
set hnsw.iterative_scan = relaxed_order set hnsw.ef_search = 100 set hnsw.max_scan_tuples = 20000 set hnsw.scan_mem_multiplier = 4
set enable_sort = off set enable_bitmapscan = off set enable_seqscan = off as $f$
begin
  perform check_tenant(p_tenant);
  if p_scopes is null or p_k is null or p_k < 1 or p_k > 1000 or vector_dims(p_query) is distinct from p_dim then
    raise invalid_parameter_value using message = 'scopes, 1 <= k <= 1000, a query of dim dimensions';
  end if;
  if p_k > 100 then perform set_config('hnsw.ef_search', p_k::text, true); end if;   -- undone when the function returns
  return query execute format('select c.chunk_id, (1 - c.d)::real from (
      select e.chunk_id, e.embedding::halfvec(%1$L) <=> $1 as d from chunk_embedding e
      where e.tenant_id = $2 and e.index_id = $3 and e.dim = %1$L and e.scope_key = any($4)
        and ($5 is null or e.metadata @> $5) and ($6 is null or e.metadata @@ $6)
      order by e.embedding::halfvec(%1$L) <=> $1 limit $7) c order by c.d + 0.0, c.chunk_id', p_dim)
    using p_query, p_tenant, p_index, p_scopes, p_contains, p_path, p_k;
end $f$;

-- The dense lane: k rows whenever k exist. The way is chosen from the sampled share: up to 5,000 passing rows are read exactly (2 us each, through
-- GIN(metadata) or the scopes' partial btree where they narrow); above, HNSW, which visits about k / share rows; too many of them, and exact again.
create function dense_search(p_tenant uuid, p_index uuid, p_query halfvec, p_dim int, p_scopes uuid[], p_contains jsonb, p_path jsonpath,
                             p_k int, p_share float8 default null)
returns table(chunk_id uuid, score real) language plpgsql stable security definer rows 100
set search_path = pg_catalog, public, pg_temp set plan_cache_mode = auto as $f$
declare way text; total float8; share float8 := p_share; ids uuid[]; scores real[];
begin
  perform check_tenant(p_tenant);
  select i.vector_index into way from search_index i where i.tenant_id = p_tenant and i.id = p_index;
  if way = 'hnsw' then
    share := coalesce(share, search_share(p_tenant, p_index, p_scopes, p_contains, p_path));
    select sum(t.chunks) into total from lex_totals t where t.tenant_id = p_tenant and t.index_id = p_index;
    if share * total > 5000 and p_k <= 10000 * share then
      select array_agg(h.chunk_id order by h.ord), array_agg(h.score order by h.ord) into ids, scores
        from hnsw_search(p_tenant, p_index, p_query, p_dim, p_scopes, p_contains, p_path, p_k) with ordinality h(chunk_id, score, ord);
      if cardinality(ids) >= p_k then return query select u.id, u.s from unnest(ids, scores) u(id, s); return; end if;
    end if;                                                      -- short: the exact way answers
  end if;
  return query select x.chunk_id, x.score from exact_search(p_tenant, p_index, p_query, p_dim, p_scopes, p_contains, p_path, p_k) x;
end $f$;

-- Both lanes in one call and one snapshot. similarity is the cosine with the query on both lanes' rows. A null query or no terms leaves that lane out.
create function hybrid_search(p_tenant uuid, p_index uuid, p_query halfvec, p_dim int, p_terms int4[], p_keys int4[], p_scopes uuid[],
                              p_contains jsonb, p_path jsonpath, p_dense int, p_lexical int)
returns table(lane text, chunk_id uuid, score real, rank int, similarity real) language plpgsql stable security definer
set search_path = pg_catalog, public, pg_temp set plan_cache_mode = auto as $f$
declare total bigint; share float8; ids uuid[]; scores real[];
begin
  perform check_tenant(p_tenant);
  select sum(t.chunks) into total from lex_totals t where t.tenant_id = p_tenant and t.index_id = p_index;
  if total > 20000 then share := search_share(p_tenant, p_index, p_scopes, p_contains, p_path); end if;
  if p_query is not null then
    return query select 'dense', d.chunk_id, d.score, d.rank::int, d.score
      from dense_search(p_tenant, p_index, p_query, p_dim, p_scopes, p_contains, p_path, p_dense, share) with ordinality d(chunk_id, score, rank);
  end if;
  if cardinality(p_terms) > 0 then
    select array_agg(l.chunk_id order by l.rank), array_agg(l.score order by l.rank) into ids, scores
      from bm25_search(p_tenant, p_index, p_terms, p_keys, p_scopes, p_contains, p_path, p_lexical, share) with ordinality l(chunk_id, score, rank);
    if p_query is null then                                      -- nothing of the dense lane is touched: it may be what fails
      return query select 'lexical', l.id, l.s, l.r::int, null::real from unnest(ids, scores) with ordinality l(id, s, r);
      return;
    end if;
    return query execute 'select ''lexical'', l.id, l.score, l.rank::int, (select (1 - (e.embedding <=> $5))::real from chunk_embedding e
        where e.tenant_id = $3 and e.index_id = $4 and e.dim = $6 and e.chunk_id = l.id) from unnest($1, $2) with ordinality l(id, score, rank)'
      using ids, scores, p_tenant, p_index, p_query, p_dim;      -- a scalar subquery: look-ups by key, never a join's scan
  end if;
end $f$;

revoke all on function exact_search, hnsw_search, dense_search, hybrid_search from public;
grant execute on function dense_search, hybrid_search to carrel_app;
reset role;
revoke create on schema public from carrel_search;
"""


def upgrade() -> None:
    for script in (LEXICAL, DENSE):
        run_script(script)
