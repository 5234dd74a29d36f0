-- Move the masses of chunks to the entities that they name, by the weights of the edges. An edge weighs
-- (1 + ln(count)) * ln(1 + p_total / chunks). An entity takes part if it is in at most p_max_chunks chunks, and if
-- several chunks name it or it is a title. source is the chunk that gave the entity the most.
-- p_alias_keys, p_alias_targets and p_alias_documents are the corrections of the knowledge base. A key counts as its
-- target, in one document or, without a document, in all. With p_predicates, an edge needs a relation of the chunk.
create or replace function graph_entity_masses(p_tenant uuid, p_index uuid, p_chunks uuid[], p_masses float8[], p_total bigint, p_max_chunks float8,
                                               p_scopes uuid[], p_user_restricted bool, p_alias_keys int4[], p_alias_targets int4[],
                                               p_alias_documents uuid[], p_predicates jsonb)
returns table(key int4, mass float8, chunks int, source uuid) language plpgsql stable rows 100
set search_path = pg_catalog, public, pg_temp as $f$
-- Without corrections and restrictions, the numbers of chunks need no call of a function for each entity.
declare is_plain bool := cardinality(p_alias_keys) = 0 and not p_user_restricted;
begin
  return query
  with named as (
    select c.id, c.mass, r.target, (1 + ln(sum(u.count)))::float8 as occurrences
      from unnest(p_chunks, p_masses) c(id, mass)
     cross join lateral (select e.keys, e.counts from chunk_entity e
                          where e.tenant_id = p_tenant and e.index_id = p_index and e.chunk_id = c.id offset 0) e
     cross join lateral (select case when cardinality(p_alias_keys) > 0 then (
         select x.document_id from chunk x where x.tenant_id = p_tenant and x.index_id = p_index and x.id = c.id) end as document offset 0) d
     cross join lateral unnest(e.keys, e.counts) u(entity, count)
      left join unnest(p_alias_keys, p_alias_targets, p_alias_documents) s(entity, target, document) on s.entity = u.entity and s.document = d.document
      left join unnest(p_alias_keys, p_alias_targets, p_alias_documents) m(entity, target, document) on m.entity = u.entity and m.document is null
     cross join lateral (select coalesce(s.target, m.target, u.entity) as target offset 0) r
     where p_predicates is null or exists (
         select from relation x where x.tenant_id = p_tenant and x.index_id = p_index and x.chunk_id = c.id
            and p_predicates ? x.predicate and u.entity in (x.subject_key, x.object_key))
     group by c.id, c.mass, r.target
  ), weighted as (
    select n.id, n.mass, n.target, f.chunks, n.occurrences * ln(1 + p_total::float8 / f.chunks) as weight
      from named n
     cross join lateral (
       select g.chunks, g.is_title
         from graph_entity_chunks(p_tenant, p_index, n.target, p_scopes, p_user_restricted, p_alias_keys, p_alias_targets, p_alias_documents) g where not is_plain
       union all
       select coalesce(sum(x.chunks), 0)::int, coalesce(sum(x.titles), 0) > 0
         from entity x where x.tenant_id = p_tenant and x.index_id = p_index and x.key = n.target having is_plain) f
     where f.chunks > 0 and f.chunks <= p_max_chunks and (f.chunks > 1 or f.is_title)
  ), moved as (
    select w.id, w.target, w.chunks, w.mass * w.weight / sum(w.weight) over (partition by w.id) as mass from weighted w
  )
  select m.target, sum(m.mass), max(m.chunks), (array_agg(m.id order by m.mass desc, m.id))[1] from moved m group by m.target;
end $f$;

revoke all on function graph_entity_masses from public;
