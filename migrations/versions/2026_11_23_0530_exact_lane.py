"""Less to compute: the exact scan's distance by its function alone, and cosines only of what is shown.

Revision ID: 0038
Revises: 0037

Functions alone (ADR 0016).
"""

from app.db.migrate import run_script

revision = "0038"
down_revision = "0037"
branch_labels = None
depends_on = None

FUNCTIONS = r"""
grant create on schema public to carrel_search;  -- while it replaces its functions
set role carrel_search;
-- The dense lane: k rows whenever k exist, through the HNSW or exactly; of what the terms of a lookup find where there are some.
create or replace function dense_lane(p_tenant uuid, p_index uuid, p_query halfvec, p_dim int, p_scopes uuid[], p_contains jsonb, p_path jsonpath,
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
  -- The operator's function, not the operator: that keeps the planner off any HNSW, and costs nothing. `is true` keeps what would have every row's
  -- terms computed again out of the index condition.
  if p_any is not null and p_reach * p_total > 2000 and p_share * 2 > p_reach then
    -- They are many, and most of them pass: only the nearest of it are asked whether they do. Where k of them do, those are the nearest k of all.
    execute 'select array_agg(x.chunk_id order by x.d, x.chunk_id), array_agg((1 - x.d)::real order by x.d, x.chunk_id)
        from (select e.chunk_id, cosine_distance(e.embedding, $1) as d from chunk_embedding e
              where e.tenant_id = $2 and e.index_id = $3 and e.dim = $7 and filter_terms(e.metadata) && $8 and (e.scope_key = any($4)) is true
              order by d, e.chunk_id limit $9) x
        cross join lateral (select e.metadata from chunk_embedding e
                            where e.tenant_id = $2 and e.index_id = $3 and e.dim = $7 and e.chunk_id = x.chunk_id offset 0) m
        where ($5 is null or m.metadata @> $5) and ($6 is null or m.metadata @@ $6)'
      into ids, scores using p_query, p_tenant, p_index, p_scopes, p_contains, p_path, p_dim, p_any, (1.2 * p_k * p_reach / p_share)::int + 32;
    if cardinality(ids) >= p_k then return query select u.id, u.s from unnest(ids, scores) u(id, s) limit p_k; return; end if;
  end if;
  if p_any is not null then
    return query execute 'select x.chunk_id, (1 - x.d)::real from (select e.chunk_id, cosine_distance(e.embedding, $1) as d from chunk_embedding e
        where e.tenant_id = $2 and e.index_id = $3 and e.dim = $8 and filter_terms(e.metadata) && $9
          and (e.scope_key = any($4)) is true and ($5 is null or (e.metadata @> $5) is true) and ($6 is null or (e.metadata @@ $6) is true)
        order by d, e.chunk_id limit $7) x' using p_query, p_tenant, p_index, p_scopes, p_contains, p_path, p_k, p_dim, p_any;
    return;
  end if;
  return query execute 'select x.chunk_id, (1 - x.d)::real from (select e.chunk_id, cosine_distance(e.embedding, $1) as d from chunk_embedding e
      where e.tenant_id = $2 and e.index_id = $3 and e.dim = $8 and e.scope_key = any($4) and ($5 is null or e.metadata @> $5) and ($6 is null or e.metadata @@ $6)
      order by d, e.chunk_id limit $7) x' using p_query, p_tenant, p_index, p_scopes, p_contains, p_path, p_k, p_dim;
end $f$;

-- As before, but of the lexical lane's rows the first p_cosines alone have the cosine where that is given: each is a look-up, and a search shows few.
drop function hybrid_search;
create function hybrid_search(p_tenant uuid, p_index uuid, p_query halfvec, p_dim int, p_terms int4[], p_keys int4[], p_scopes uuid[],
                                         p_contains jsonb, p_path jsonpath, p_dense int, p_lexical int, p_lookups jsonb default null, p_cosines int default null)
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
    return query execute 'select ''lexical'', l.id, l.score, l.rank::int, case when l.rank <= $7 then (select (1 - (e.embedding <=> $5))::real
        from chunk_embedding e where e.tenant_id = $3 and e.index_id = $4 and e.dim = $6 and e.chunk_id = l.id) end from unnest($1, $2) with ordinality l(id, score, rank)'
      using ids, scores, p_tenant, p_index, p_query, p_dim, coalesce(p_cosines, p_lexical);  -- a scalar subquery: look-ups by key, never a join's scan
  end if;
end $f$;
revoke all on function hybrid_search from public;
grant execute on function hybrid_search to carrel_app;
reset role;
revoke create on schema public from carrel_search;
"""


def upgrade() -> None:
    run_script(FUNCTIONS)
