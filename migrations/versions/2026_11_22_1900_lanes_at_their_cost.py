"""The lexical lane by itself with its cosines, and a dense lane that knows what either way costs.

Revision ID: 0035
Revises: 0034

Where both lanes take long each has a connection of its own: the lexical one wants cosines, and no row of the dense one.
Up to here 5,000 rows at most were read exactly, and of more the HNSW visited k / share, which may take longer than to
read all that an index of the filter finds (ADR 0012).
"""

from app.db.migrate import run_script

revision = "0035"
down_revision = "0034"
branch_labels = None
depends_on = None

FUNCTIONS = r"""
do $$ begin perform vector_dims('[1]'::halfvec); end $$;   -- as in 0002: before that, `set hnsw.*` is refused
grant create on schema public to carrel_search;  -- while it creates its functions
set role carrel_search;
drop function dense_lane, search_sample;

-- How many chunks there are, which share of them passes scopes and filter, and which share an index would find: that passes what it can look up, and
-- 1 without such an index. From the first 500 in key order: chunk ids are hashes, so key order is a random sample. Up to 20,000 chunks are not worth
-- one, unless there is an HNSW, which visits more the fewer pass. With p_dim it looks into the dense lane: the lexical one may be what fails.
create function search_sample(p_tenant uuid, p_index uuid, p_scopes uuid[], p_contains jsonb, p_path jsonpath, p_least bigint default 20000,
                              p_dim int default null)
returns table(total bigint, share float8, reach float8) language plpgsql stable rows 1
set search_path = pg_catalog, public, pg_temp as $f$
-- A guess: what else stands in the path may be in an `or` with the equality, and then no index finds it. All that hangs on it is time.
declare indexed bool; equality bool := p_path::text ~ '==' and p_path::text !~ '[!<>]|like_regex|starts with|exists *\([^?)]*\)';
begin
  select coalesce(sum(t.chunks), 0) into total from lex_totals t where t.tenant_id = p_tenant and t.index_id = p_index;
  select i.vector_index = 'hnsw' into indexed from search_index i where i.tenant_id = p_tenant and i.id = p_index;
  share := 1;
  reach := 1;
  if total <= p_least and not coalesce(indexed, false) then return next; return; end if;
  if p_dim is null then
    select coalesce(avg((s.narrow and s.path)::int), 1), coalesce(avg((not indexed or s.narrow and (s.path or not equality))::int), 1)
      into share, reach
      from (select l.scope_key = any(p_scopes) and (p_contains is null or l.metadata @> p_contains) as narrow,
                   p_path is null or coalesce(l.metadata @@ p_path, false) as path
              from chunk_lexical l where l.tenant_id = p_tenant and l.index_id = p_index order by l.chunk_id limit 500) s;
  else
    select coalesce(avg((s.narrow and s.path)::int), 1), coalesce(avg((not indexed or s.narrow and (s.path or not equality))::int), 1)
      into share, reach
      from (select e.scope_key = any(p_scopes) and (p_contains is null or e.metadata @> p_contains) as narrow,
                   p_path is null or coalesce(e.metadata @@ p_path, false) as path
              from chunk_embedding e where e.tenant_id = p_tenant and e.index_id = p_index and e.dim = p_dim order by e.chunk_id limit 500) s;
  end if;
  return next;
end $f$;

-- Whether k rows come sooner through the HNSW: 25 us for each of the k / share that it visits, beside 1.5 us a row that an index of filter or scopes
-- finds, or 0.6 us a row where all are read in turn. Never for 5,000 rows and fewer, or a share of k / 10,000, where it would find too little.
create function prefers_hnsw(p_total bigint, p_share float8, p_reach float8, p_k int) returns bool language sql immutable
set search_path = pg_catalog, public, pg_temp as $f$
  select p_share * p_total > 5000 and p_k <= 10000 * p_share
     and 25.0 * p_k < p_share * p_total * case when p_reach < 1 then 1.5 * p_reach else 0.6 end
$f$;

-- The dense lane: k rows whenever k exist, through the HNSW or exactly.
create function dense_lane(p_tenant uuid, p_index uuid, p_query halfvec, p_dim int, p_scopes uuid[], p_contains jsonb, p_path jsonpath,
                           p_k int, p_total bigint, p_share float8, p_reach float8)
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
  -- "+ 0.0" keeps the planner off any HNSW; one expression, so that the distance is computed once a row
  return query execute 'select x.chunk_id, (1 - x.d)::real from (select e.chunk_id, (e.embedding <=> $1) + 0.0 as d from chunk_embedding e
      where e.tenant_id = $2 and e.index_id = $3 and e.dim = $8 and e.scope_key = any($4) and ($5 is null or e.metadata @> $5) and ($6 is null or e.metadata @@ $6)
      order by d, e.chunk_id limit $7) x' using p_query, p_tenant, p_index, p_scopes, p_contains, p_path, p_k, p_dim;
end $f$;

create or replace function dense_search(p_tenant uuid, p_index uuid, p_query halfvec, p_dim int, p_scopes uuid[], p_contains jsonb, p_path jsonpath,
                                        p_k int)
returns table(chunk_id uuid, score real) language plpgsql stable security definer rows 100
set search_path = pg_catalog, public, pg_temp set plan_cache_mode = auto as $f$
begin
  perform check_tenant(p_tenant);
  return query select x.chunk_id, x.score from search_sample(p_tenant, p_index, p_scopes, p_contains, p_path, p_dim => p_dim) s,
    dense_lane(p_tenant, p_index, p_query, p_dim, p_scopes, p_contains, p_path, p_k, s.total, s.share, s.reach) x;
end $f$;

-- Both lanes in one call and one snapshot. similarity is the cosine with the query on both lanes' rows. A null query, 0 of its rows or no terms leave
-- that lane out; with a query the lexical one has its cosines all the same.
create or replace function hybrid_search(p_tenant uuid, p_index uuid, p_query halfvec, p_dim int, p_terms int4[], p_keys int4[], p_scopes uuid[],
                                         p_contains jsonb, p_path jsonpath, p_dense int, p_lexical int)
returns table(lane text, chunk_id uuid, score real, rank int, similarity real) language plpgsql stable security definer
set search_path = pg_catalog, public, pg_temp set plan_cache_mode = auto as $f$
declare sample record; ids uuid[]; scores real[];
begin
  perform check_tenant(p_tenant);
  select * into sample from search_sample(p_tenant, p_index, p_scopes, p_contains, p_path, p_dim => case when cardinality(p_terms) > 0 then null else p_dim end);
  if p_query is not null and p_dense is distinct from 0 then
    return query select 'dense', d.chunk_id, d.score, d.rank::int, d.score
      from dense_lane(p_tenant, p_index, p_query, p_dim, p_scopes, p_contains, p_path, p_dense, sample.total, sample.share, sample.reach)
           with ordinality d(chunk_id, score, rank);
  end if;
  if cardinality(p_terms) > 0 then
    select array_agg(l.chunk_id order by l.rank), array_agg(l.score order by l.rank) into ids, scores
      from lexical_lane(p_tenant, p_index, p_terms, p_keys, p_scopes, p_contains, p_path, p_lexical, sample.total, sample.share, sample.reach)
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

create or replace function search_plan(p_tenant uuid, p_index uuid, p_scopes uuid[], p_contains jsonb, p_path jsonpath, p_k int)
returns table(chunks bigint, share float8, dense text, lexical text) language plpgsql stable security definer rows 1
set search_path = pg_catalog, public, pg_temp set plan_cache_mode = auto as $f$
declare way text;
begin
  perform check_tenant(p_tenant);
  select i.vector_index into way from search_index i where i.tenant_id = p_tenant and i.id = p_index;
  return query select s.total, s.share,
    case when way = 'hnsw' and prefers_hnsw(s.total, s.share, s.reach, p_k) then 'index' else 'exact' end,
    case when s.total <= 5000 or (s.total > 20000 and s.reach * s.total <= 5000) then 'all' else 'pruned' end
    from search_sample(p_tenant, p_index, p_scopes, p_contains, p_path, 0) s;
end $f$;

revoke all on function search_sample, prefers_hnsw, dense_lane from public;
reset role;
revoke create on schema public from carrel_search;
"""


def upgrade() -> None:
    run_script(FUNCTIONS)
