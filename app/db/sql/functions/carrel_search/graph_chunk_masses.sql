-- Move the masses of entities to the chunks that name them, by 1 + ln(count). Only chunks that pass scopes and filter
-- take part. Return the chunks with the most, at most p_limit, and those of p_seeds. key is the entity that gave the
-- chunk the most. The other parameters are those of graph_entity_masses.
create or replace function graph_chunk_masses(p_tenant uuid, p_index uuid, p_keys int4[], p_masses float8[], p_scopes uuid[], p_contains jsonb,
                                              p_path jsonpath, p_alias_keys int4[], p_alias_targets int4[], p_alias_documents uuid[], p_predicates jsonb,
                                              p_seeds uuid[], p_limit int)
returns table(chunk_id uuid, mass float8, key int4) language plpgsql stable rows 200
set search_path = pg_catalog, public, pg_temp as $f$
declare keys int4[] := p_keys; row_sql text;
begin
  if cardinality(p_keys) = 0 then return; end if;
  -- `offset 0` looks up each row by key. `is not distinct from` keeps the planner from combining the GIN index with a
  -- bitmap of all rows of the search index.
  row_sql := ' and e.tenant_id is not distinct from $1 and e.index_id is not distinct from $2 and (e.scope_key = any($4)) is true offset 0) e'
    || case when p_contains is null and p_path is null then '' else '
     cross join lateral (select from chunk_lexical l
        where l.tenant_id = $1 and l.index_id = $2 and l.chunk_id = e.chunk_id
          and ($5 is null or l.metadata @> $5) and ($6 is null or l.metadata @@ $6) offset 0) l' end;
  if cardinality(p_alias_keys) = 0 then
    -- One look-up for each entity is cheaper than the expansion of the arrays of each row.
    row_sql := 'select e.chunk_id, k.entity as target, 1 + ln(e.counts[array_position(e.keys, k.entity)]::float8) as occurrences
      from unnest($3) k(entity)
     cross join lateral (select e.chunk_id, e.keys, e.counts from chunk_entity e where e.keys @> array[k.entity]' || row_sql || '
     where ' || case when p_predicates is null then 'true' else 'exists (
         select from relation x where x.tenant_id = $1 and x.index_id = $2 and x.chunk_id = e.chunk_id
            and $10 ? x.predicate and k.entity in (x.subject_key, x.object_key))' end;
  else
    select array_agg(distinct a.entity) into keys from (
      select unnest(p_keys) union all
      select x.entity from unnest(p_alias_keys, p_alias_targets) x(entity, target) where x.target = any(p_keys)) a(entity);
    row_sql := 'select e.chunk_id, r.target, 1 + ln(sum(u.count)::float8) as occurrences
      from (select e.chunk_id, e.keys, e.counts from chunk_entity e where e.keys && $3' || row_sql || '
     cross join lateral (select c.document_id as document from chunk c
        where c.tenant_id = $1 and c.index_id = $2 and c.id = e.chunk_id offset 0) d
     cross join lateral unnest(e.keys, e.counts) u(entity, count)
      left join unnest($7, $8, $9) s(entity, target, document) on s.entity = u.entity and s.document = d.document
      left join unnest($7, $8, $9) m(entity, target, document) on m.entity = u.entity and m.document is null
     cross join lateral (select coalesce(s.target, m.target, u.entity) as target offset 0) r
     where u.entity = any($3) and ($10 is null or exists (
         select from relation x where x.tenant_id = $1 and x.index_id = $2 and x.chunk_id = e.chunk_id
            and $10 ? x.predicate and u.entity in (x.subject_key, x.object_key)))
     group by e.chunk_id, r.target';
  end if;
  return query execute '
  with rows as materialized (' || row_sql || '
  ), shares as materialized (
    select k.target, k.mass / t.total as share
      from unnest($11, $12) k(target, mass) join (select r.target, sum(r.occurrences) as total from rows r group by r.target) t on t.target = k.target
  ), sums as materialized (
    select r.chunk_id, sum(s.share * r.occurrences) as mass from rows r join shares s on s.target = r.target group by r.chunk_id
  ), best as (
    (select b.chunk_id, b.mass from sums b order by b.mass desc, b.chunk_id limit $14)
    union (select b.chunk_id, b.mass from sums b where b.chunk_id = any($13))
  )
  select b.chunk_id, b.mass, (array_agg(r.target order by s.share * r.occurrences desc, r.target))[1]
    from best b join rows r on r.chunk_id = b.chunk_id join shares s on s.target = r.target group by b.chunk_id, b.mass'
  using p_tenant, p_index, keys, p_scopes, p_contains, p_path, p_alias_keys, p_alias_targets, p_alias_documents, p_predicates, p_keys, p_masses, p_seeds, p_limit;
end $f$;

revoke all on function graph_chunk_masses from public;
