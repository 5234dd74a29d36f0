-- Return a row for each query term that the search index has: number of chunks, idf, and the greatest score that the
-- term can add. p_visible_chunks is the number of chunks in p_scopes and in the open levels. With it, the idf counts
-- only those chunks. Without it, the idf counts all chunks (p_total) of the search index.
create or replace function query_term_weights(p_tenant uuid, p_index uuid, p_terms int4[], p_keys int4[], p_scopes uuid[], p_total bigint,
                                              p_visible_chunks bigint)
returns table(term int4, key int4, df int, idf float8, max_score float8) language plpgsql stable rows 10
set search_path = pg_catalog, public, pg_temp as $f$
begin
  -- Look up each term: without statistics, the planner would read all frequencies of the search index for a join.
  return query select t.term, t.key, f.df, i.idf, i.idf * f.max_weight
    from (select distinct u.term, u.key from unnest(p_terms, p_keys) u(term, key)) t
    cross join lateral (select sum(d.df)::int df, max(d.max_weight)::float8 max_weight from term_document_frequency d
                        where d.tenant_id = p_tenant and d.index_id = p_index and d.key = t.key) f
    cross join lateral (select case when p_visible_chunks is null then f.df else greatest(0, f.df + (
        select coalesce(sum(case when x.scope_key = all_private_levels() then -x.chunks else x.chunks end), 0)::int from private_frequency x
         where x.tenant_id = p_tenant and x.index_id = p_index and x.scope_key = any(p_scopes || all_private_levels()) and x.key = t.key)) end as df
      offset 0) s
    cross join lateral (select ln(1 + (greatest(coalesce(p_visible_chunks, p_total), s.df) - s.df + 0.5) / (s.df + 0.5))::float8 as idf offset 0) i
    where f.df > 0;
end $f$;

revoke all on function query_term_weights from public;
