"""What is near enough for the lexical lane may be so to any of several queries.

Revision ID: 0043
Revises: 0042

Functions alone.
"""

from app.db.migrate import run_script

revision = "0043"
down_revision = "0042"
branch_labels = None
depends_on = None

FUNCTIONS = r"""
grant create on schema public to carrel_search;  -- while it replaces its functions
set role carrel_search;
-- As before, but with p_others a row is as near as the nearest of these says; its similarity stays that with p_query.
drop function lexical_near;
create function lexical_near(p_tenant uuid, p_index uuid, p_query halfvec, p_others halfvec[], p_dim int, p_least float8, p_terms int4[], p_keys int4[],
                             p_scopes uuid[], p_contains jsonb, p_path jsonpath, p_k int, p_total bigint)
returns table(chunk_id uuid, score real, similarity real) language plpgsql stable rows 100
set search_path = pg_catalog, public, pg_temp as $f$
declare q sparsevec; nearest text;
begin
  if p_scopes is null or p_k is null or p_k < 1 or p_k > 1000 or cardinality(p_terms) is distinct from cardinality(p_keys) then
    raise invalid_parameter_value using message = 'scopes, 1 <= k <= 1000, as many keys as terms';
  end if;
  select ('{' || string_agg((x.term + 1) || ':' || x.idf, ',' order by x.term) || '}/1000000000')::sparsevec into q
    from (select t.term, ln(1 + (p_total - f.df + 0.5) / (f.df + 0.5))::float8 as idf
          from (select distinct u.term, u.k from unnest(p_terms, p_keys) u(term, k)) t
          cross join lateral (select sum(d.df)::int df from lex_df d where d.tenant_id = p_tenant and d.index_id = p_index and d.key = t.k) f
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

-- As before, but for p_others.
drop function hybrid_search;
create function hybrid_search(p_tenant uuid, p_index uuid, p_query halfvec, p_dim int, p_terms int4[], p_keys int4[], p_scopes uuid[],
                              p_contains jsonb, p_path jsonpath, p_dense int, p_lexical int, p_lookups jsonb default null,
                              p_cosines int default null, p_least float8 default null, p_others halfvec[] default null)
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
  if cardinality(p_terms) > 0 and p_least is not null then
    return query select 'lexical', n.chunk_id, n.score, n.rank::int, n.similarity
      from lexical_near(p_tenant, p_index, p_query, p_others, p_dim, p_least, p_terms, p_keys, p_scopes, p_contains, p_path, p_lexical, sample.total)
           with ordinality n(chunk_id, score, similarity, rank);
  elsif cardinality(p_terms) > 0 then
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
