-- Search with the dense and the lexical retriever in one call and one snapshot: up to p_dense and p_lexical chunks.
-- similarity is the chunk's cosine with the query. A null query or p_dense = 0 leaves out the dense retriever; an empty
-- p_terms leaves out the lexical one. Without p_min_similarity, the first p_max_cosines lexical rows have a similarity
-- (null: all rows). With p_min_similarity, lexical rows are at least that similar to the query or to one of
-- p_other_queries. With p_user_restricted, a score counts only chunks that the caller's restricted key can read. This
-- work_mem keeps bitmaps exact: a lossy bitmap would compute the terms of every row of a page again.
create or replace function hybrid_search(p_tenant uuid, p_index uuid, p_query halfvec, p_dim int, p_terms int4[], p_keys int4[], p_scopes uuid[],
                                         p_contains jsonb, p_path jsonpath, p_dense int, p_lexical int, p_lookups jsonb default null,
                                         p_max_cosines int default null, p_min_similarity float8 default null, p_other_queries halfvec[] default null,
                                         p_user_restricted bool default false)
returns table(retriever text, chunk_id uuid, score real, rank int, similarity real) language plpgsql stable security definer
set search_path = pg_catalog, public, pg_temp set plan_cache_mode = auto set work_mem = '32MB' as $f$
declare sample record; visible_chunks bigint; ids uuid[]; scores real[];
begin
  perform check_tenant(p_tenant);
  select * into sample from search_sample(p_tenant, p_index, p_scopes, p_contains, p_path, p_lookups, p_dim => case when cardinality(p_terms) > 0 then null else p_dim end);
  if p_user_restricted then
    select sample.total + coalesce(sum(case when x.scope_key = all_private_levels() then -x.chunks else x.chunks end), 0) into visible_chunks
      from private_frequency x
     where x.tenant_id = p_tenant and x.index_id = p_index and x.scope_key = any(p_scopes || all_private_levels()) and x.key is null;
  end if;
  if p_query is not null and p_dense is distinct from 0 then
    return query select 'dense', d.chunk_id, d.score, d.rank::int, d.score
      from dense_search(p_tenant, p_index, p_query, p_dim, p_scopes, p_contains, p_path, p_dense, sample.total, sample.share, sample.reach, sample.terms)
           with ordinality d(chunk_id, score, rank);
  end if;
  if cardinality(p_terms) > 0 and p_min_similarity is not null then
    return query select 'lexical', n.chunk_id, n.score, n.rank::int, n.similarity
      from lexical_search_within(p_tenant, p_index, p_query, p_other_queries, p_dim, p_min_similarity, p_terms, p_keys, p_scopes, p_contains, p_path,
                                 p_lexical, sample.total, visible_chunks)
           with ordinality n(chunk_id, score, similarity, rank);
  elsif cardinality(p_terms) > 0 then
    select array_agg(l.chunk_id order by l.rank), array_agg(l.score order by l.rank) into ids, scores
      from lexical_search(p_tenant, p_index, p_terms, p_keys, p_scopes, p_contains, p_path, p_lexical, sample.total, sample.share, sample.reach,
                          sample.terms, visible_chunks)
           with ordinality l(chunk_id, score, rank);
    if p_query is null then  -- read nothing of chunk_embedding: the caller leaves it out when it cannot be read
      return query select 'lexical', l.id, l.s, l.r::int, null::real from unnest(ids, scores) with ordinality l(id, s, r);
      return;
    end if;
    -- A scalar subquery looks up each row by key. A join could become a scan.
    return query execute 'select ''lexical'', l.id, l.score, l.rank::int, case when l.rank <= $7 then (select (1 - (e.embedding <=> $5))::real
        from chunk_embedding e where e.tenant_id = $3 and e.index_id = $4 and e.dim = $6 and e.chunk_id = l.id) end from unnest($1, $2) with ordinality l(id, score, rank)'
      using ids, scores, p_tenant, p_index, p_query, p_dim, coalesce(p_max_cosines, p_lexical);
  end if;
end $f$;

revoke all on function hybrid_search from public;
grant execute on function hybrid_search to carrel_app;
