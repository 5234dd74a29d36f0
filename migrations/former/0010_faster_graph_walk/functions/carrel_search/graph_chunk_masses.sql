-- Move the masses of entities to the chunks that name them, by 1 + ln(count). Only chunks that pass scopes and filter
-- take part. key is the entity that gave the chunk the most. The other parameters are those of graph_entity_masses.
create or replace function graph_chunk_masses(p_tenant uuid, p_index uuid, p_keys int4[], p_masses float8[], p_scopes uuid[], p_contains jsonb,
                                              p_path jsonpath, p_alias_keys int4[], p_alias_targets int4[], p_alias_documents uuid[], p_predicates jsonb)
returns table(chunk_id uuid, mass float8, key int4) language plpgsql stable rows 1000
set search_path = pg_catalog, public, pg_temp as $f$
declare keys int4[] := p_keys; has_aliases bool := cardinality(p_alias_keys) > 0; row_sql text; target text := 'u.entity';
begin
  if cardinality(p_keys) = 0 then return; end if;
  if has_aliases then
    select array_agg(distinct a.entity) into keys from (
      select unnest(p_keys) union all
      select x.entity from unnest(p_alias_keys, p_alias_targets) x(entity, target) where x.target = any(p_keys)) a(entity);
    target := 'coalesce(s.target, m.target, u.entity)';
  end if;
  -- `offset 0` looks up each row by key. `is not distinct from` keeps the planner from combining the GIN index with a
  -- bitmap of all rows of the search index.
  row_sql := case when p_contains is null and p_path is null then '' else '
     cross join lateral (select from chunk_lexical l
        where l.tenant_id = $1 and l.index_id = $2 and l.chunk_id = e.chunk_id
          and ($5 is null or l.metadata @> $5) and ($6 is null or l.metadata @@ $6) offset 0) l' end
    || case when has_aliases then '
     cross join lateral (select c.document_id as document from chunk c
        where c.tenant_id = $1 and c.index_id = $2 and c.id = e.chunk_id offset 0) d' else '' end;
  return query execute '
  with rows as (
    select e.chunk_id, r.target, (1 + ln(sum(u.count)))::float8 as occurrences
      from (select e.chunk_id, e.keys, e.counts from chunk_entity e
             where e.keys && $3 and e.tenant_id is not distinct from $1 and e.index_id is not distinct from $2 and (e.scope_key = any($4)) is true offset 0) e
     ' || row_sql || '
     cross join lateral unnest(e.keys, e.counts) u(entity, count)
     ' || case when has_aliases then '
     left join unnest($7, $8, $9) s(entity, target, document) on s.entity = u.entity and s.document = d.document
     left join unnest($7, $8, $9) m(entity, target, document) on m.entity = u.entity and m.document is null' else '' end || '
     cross join lateral (select ' || target || ' as target offset 0) r
     where u.entity = any($3) and ($10 is null or exists (
         select from relation x where x.tenant_id = $1 and x.index_id = $2 and x.chunk_id = e.chunk_id
            and $10 ? x.predicate and u.entity in (x.subject_key, x.object_key)))
     group by e.chunk_id, r.target
  ), moved as (
    select r.chunk_id, r.target, k.mass * r.occurrences / sum(r.occurrences) over (partition by r.target) as mass
      from rows r join unnest($11, $12) k(target, mass) on k.target = r.target
  )
  select m.chunk_id, sum(m.mass), (array_agg(m.target order by m.mass desc, m.target))[1] from moved m group by m.chunk_id'
  using p_tenant, p_index, keys, p_scopes, p_contains, p_path, p_alias_keys, p_alias_targets, p_alias_documents, p_predicates, p_keys, p_masses;
end $f$;

revoke all on function graph_chunk_masses from public;
