-- Estimate the share of chunks that passes scopes and filter, and the share that an index would find (1 without such an
-- index). With p_lookups, choose the lookup that finds the fewest rows and return its terms. The sample is the first 500
-- rows in key order, which is random because chunk ids are hashes. A search index with up to p_min_chunks chunks is not
-- sampled unless it has an HNSW index. With p_dim the sample is of chunk_embedding, otherwise of chunk_lexical.
-- The session caches results for a minute.
create or replace function search_sample(p_tenant uuid, p_index uuid, p_scopes uuid[], p_contains jsonb, p_path jsonpath, p_lookups jsonb,
                                         p_min_chunks bigint default 20000, p_dim int default null)
returns table(total bigint, share float8, reach float8, terms int4[]) language plpgsql stable rows 1
set search_path = pg_catalog, public, pg_temp as $f$
-- equality is an estimate: if the path has an `or` with its equality, no index finds the rows. A wrong estimate only
-- costs time.
declare indexed bool; equality bool := p_path::text ~ '==' and p_path::text !~ '[!<>]|like_regex|starts with|exists *\([^?)]*\)';
  rows jsonb[]; value_path text[]; low jsonb; high jsonb; hit float8; lookup int; key bigint; slot text; cached text[]; now_s float8;
begin
  select coalesce(sum(t.chunks), 0) into total from index_totals t where t.tenant_id = p_tenant and t.index_id = p_index;
  select i.vector_index = 'hnsw' into indexed from search_index i where i.tenant_id = p_tenant and i.id = p_index;
  share := 1;
  reach := 1;
  if total <= p_min_chunks and not coalesce(indexed, false) then return next; return; end if;
  -- Without both indexes of filter terms, which the worker builds, a lookup would compute the terms of every row.
  if p_lookups is not null and (not indexed or 2 > (select count(*) from unnest(array['filter', 'filterl']) prefix
      join pg_index x on x.indexrelid = to_regclass('public.' || prefix || '_' || replace(p_index::text, '-', '')) and x.indisvalid)) then
    p_lookups := null;
  end if;
  -- A sample takes longer than the time that it saves in one search. The session therefore caches the results of its
  -- last filters, for a minute and until the number of chunks changes. A cached result changes only the method: exact
  -- scans find the same rows, and HNSW nearly the same.
  key := hashtextextended(concat_ws(' ', p_index, total, indexed, p_scopes, p_contains, p_path, p_lookups), 0);
  slot := 'carrel.sample_' || (key & 31);
  now_s := extract(epoch from clock_timestamp());
  cached := string_to_array(current_setting(slot, true), ' ');
  if cached[1] = key::text and cached[5]::float8 > now_s and cached[4]::int < coalesce(jsonb_array_length(p_lookups), 0) then
    share := cached[2];
    reach := cached[3];
    lookup := cached[4];
    if lookup >= 0 then terms := lookup_terms(p_lookups -> lookup); end if;
    return next;
    return;
  end if;
  -- Keep the sampled rows only if lookups are to be tried on them.
  if p_dim is null then
    select coalesce(avg((s.narrow and s.path)::int), 1), coalesce(avg((not indexed or s.narrow and (s.path or not equality))::int), 1),
           array_agg(s.metadata) filter (where p_lookups is not null) into share, reach, rows
      from (select l.metadata, l.scope_key = any(p_scopes) and (p_contains is null or l.metadata @> p_contains) as narrow,
                   p_path is null or coalesce(l.metadata @@ p_path, false) as path
              from chunk_lexical l where l.tenant_id = p_tenant and l.index_id = p_index order by l.chunk_id limit 500) s;
  else
    select coalesce(avg((s.narrow and s.path)::int), 1), coalesce(avg((not indexed or s.narrow and (s.path or not equality))::int), 1),
           array_agg(s.metadata) filter (where p_lookups is not null) into share, reach, rows
      from (select e.metadata, e.scope_key = any(p_scopes) and (p_contains is null or e.metadata @> p_contains) as narrow,
                   p_path is null or coalesce(e.metadata @@ p_path, false) as path
              from chunk_embedding e where e.tenant_id = p_tenant and e.index_id = p_index and e.dim = p_dim order by e.chunk_id limit 500) s;
  end if;
  lookup := -1;
  if p_lookups is not null and reach * total > 2000 then
    declare before float8 := reach;
    begin
      for n in 0 .. jsonb_array_length(p_lookups) - 1 loop
        value_path := array(select jsonb_array_elements_text(p_lookups #> array[n::text, 'path']));
        -- jsonb sorts null below and objects above all scalars.
        low := coalesce(p_lookups #> array[n::text, 'equal'], p_lookups #> array[n::text, 'low'], 'null');
        high := coalesce(p_lookups #> array[n::text, 'equal'], p_lookups #> array[n::text, 'high'], '{}');
        select avg(coalesce((m #> value_path) between low and high, false)::int) into hit from unnest(rows) m;
        if hit <= least(reach, 0.3) then
          lookup := n;
          reach := hit;
        end if;
      end loop;
      if lookup >= 0 then
        terms := lookup_terms(p_lookups -> lookup);
        -- A lookup also finds rows whose values share a key with the looked-up value, and rows with very many values. A lookup that finds most rows is
        -- useless, and the planner would compute every row's terms instead. Computing terms is expensive: four rows are enough in most cases.
        select avg((filter_terms(m) && terms)::int) into hit from unnest(rows[1:4]) m;
        if hit >= 0.25 then select avg((filter_terms(m) && terms)::int) into hit from unnest(rows[1:16]) m; end if;
        if hit > 0.5 then
          terms := null;
          lookup := -1;
          reach := before;
        end if;
      end if;
    end;
  end if;
  perform set_config(slot, concat_ws(' ', key, share, reach, lookup, now_s + 60), false);
  return next;
end $f$;

revoke all on function search_sample from public;
