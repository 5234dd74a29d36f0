-- Walk from chunks and entities to chunks that share entities with them, p_hops steps, at most 3. Each step moves p_damping of the
-- mass along the edges, and the rest returns to the start. An entity in more than p_max_share of the chunks is no way.
-- At most p_max_rows rows of chunks are read; is_cut says whether entities were left out for that. Beyond a tenth of
-- them, an entity is only read if it gives a chunk at least 1 % of what the best entity gives.
-- Rows are the chunks of the last step, at most p_limit, and those of an earlier step from which the walk went on. key
-- is the entity by which the walk reached the chunk (null: the start), and source the chunk before that entity (null:
-- the entity is of the query).
-- p_entity_chunks is the number of chunks of each entity. The other parameters are those of graph_entity_masses.
create or replace function graph_walk(p_tenant uuid, p_index uuid, p_seeds uuid[], p_seed_masses float8[], p_entities int4[], p_entity_masses float8[],
                                      p_entity_chunks int[], p_scopes uuid[], p_contains jsonb, p_path jsonpath, p_hops int, p_damping float8,
                                      p_max_share float8, p_max_rows int, p_limit int, p_user_restricted bool, p_alias_keys int4[],
                                      p_alias_targets int4[], p_alias_documents uuid[], p_predicates jsonb)
returns table(step int, chunk_id uuid, mass float8, key int4, source uuid, is_cut bool) language plpgsql stable security definer rows 200
set search_path = pg_catalog, public, pg_temp set plan_cache_mode = auto set work_mem = '32MB' as $f$
declare total bigint; max_chunks float8; seeds uuid[]; seed_masses float8[]; chunk_ids uuid[]; chunk_masses float8[]; chunk_keys int4[];
  keys int4[]; masses float8[]; chunks int[]; sources uuid[]; is_over bool := false; next_keys int4[]; next_masses float8[]; next_chunks int[]; next_sources uuid[];
begin
  perform check_tenant(p_tenant);
  if p_scopes is null or p_hops is null or p_hops < 1 or cardinality(p_seeds) is distinct from cardinality(p_seed_masses)
     or cardinality(p_entities) is distinct from cardinality(p_entity_masses) or cardinality(p_entities) is distinct from cardinality(p_entity_chunks) then
    raise invalid_parameter_value using message = 'scopes, at least one hop, as many masses as seeds and entities';
  end if;
  select coalesce(sum(t.chunks), 0) into total from index_totals t where t.tenant_id = p_tenant and t.index_id = p_index;
  if p_user_restricted then
    select total + coalesce(sum(case when x.scope_key = all_private_levels() then -x.chunks else x.chunks end), 0) into total
      from private_frequency x
     where x.tenant_id = p_tenant and x.index_id = p_index and x.scope_key = any(p_scopes || all_private_levels()) and x.key is null;
  end if;
  max_chunks := greatest(20, p_max_share * total);
  select coalesce(array_agg(s.id), '{}'), coalesce(array_agg(s.mass), '{}') into seeds, seed_masses
    from unnest(p_seeds, p_seed_masses) s(id, mass)
   where exists (select from chunk_lexical l where l.tenant_id = p_tenant and l.index_id = p_index and l.chunk_id = s.id
                    and l.scope_key = any(p_scopes) and (p_contains is null or l.metadata @> p_contains) and (p_path is null or l.metadata @@ p_path));
  chunk_ids := seeds;
  chunk_masses := seed_masses;
  -- The entities of the query, without hubs. They are the start of the walk.
  select coalesce(array_agg(e.entity), '{}'), coalesce(array_agg(e.mass), '{}'), coalesce(array_agg(e.chunks), '{}'), array_fill(null::uuid, array[count(*)::int])
    into keys, masses, chunks, sources
    from unnest(p_entities, p_entity_masses, p_entity_chunks) e(entity, mass, chunks) where e.chunks <= max_chunks;
  p_entities := keys;
  p_entity_masses := masses;
  p_entity_chunks := chunks;
  p_hops := least(p_hops, 3);
  for number in 1..p_hops loop
    if number < p_hops then
      select coalesce(array_agg(x.entity), '{}'), coalesce(array_agg(x.mass), '{}'), coalesce(array_agg(x.chunks), '{}'), coalesce(array_agg(x.source), '{}')
        into next_keys, next_masses, next_chunks, next_sources
        from (select m.entity, sum(m.mass) as mass, max(m.chunks) as chunks, (array_agg(m.source order by m.mass desc, m.source nulls first))[1] as source
                from (select e.entity, (1 - p_damping) * e.mass as mass, e.chunks, null::uuid as source
                        from unnest(p_entities, p_entity_masses, p_entity_chunks) e(entity, mass, chunks)
                      union all
                      select g.key, p_damping * g.mass, g.chunks, g.source
                        from graph_entity_masses(p_tenant, p_index, chunk_ids, chunk_masses, total, max_chunks, p_scopes, p_user_restricted,
                                                 p_alias_keys, p_alias_targets, p_alias_documents, p_predicates) g) m
               group by m.entity) x;
    end if;
    if number = p_hops or number = p_hops - 2 then
      -- The entities that give a chunk the most come first.
      select coalesce(array_agg(e.entity) filter (where e.rows <= p_max_rows), '{}'), coalesce(array_agg(e.mass) filter (where e.rows <= p_max_rows), '{}'),
             coalesce(array_agg(e.source) filter (where e.rows <= p_max_rows), '{}'), is_over or coalesce(bool_or(e.rows > p_max_rows), false)
        into keys, masses, sources, is_over
        from (select e.entity, e.mass, e.source, e.mass_per_chunk, max(e.mass_per_chunk) over () as max_per_chunk, sum(e.chunks) over (order by e.mass_per_chunk desc, e.entity) as rows
                from (select e.entity, e.mass, e.source, e.chunks, e.mass / greatest(1, e.chunks) as mass_per_chunk
                        from unnest(keys, masses, chunks, sources) e(entity, mass, chunks, source)) e) e
       where e.rows <= p_max_rows / 10 or e.mass_per_chunk >= 0.01 * e.max_per_chunk;
      select coalesce(array_agg(x.id order by x.mass desc, x.id), '{}'), coalesce(array_agg(x.mass order by x.mass desc, x.id), '{}'),
             coalesce(array_agg(x.key order by x.mass desc, x.id), '{}')
        into chunk_ids, chunk_masses, chunk_keys
        from (select m.id, sum(m.mass) as mass, max(m.key) as key
                from (select s.id, (1 - p_damping) * s.mass as mass, null::int4 as key from unnest(seeds, seed_masses) s(id, mass)
                      union all
                      select g.chunk_id, p_damping * g.mass, g.key
                        from graph_chunk_masses(p_tenant, p_index, keys, masses, p_scopes, p_contains, p_path, p_alias_keys, p_alias_targets,
                                                p_alias_documents, p_predicates, seeds, case when number = p_hops then p_limit else 50 end) g) m
               group by m.id order by 2 desc, 1 limit case when number = p_hops then p_limit else 50 end) x;
      return query
        select number, c.id, c.mass, c.key, k.source, is_over
          from unnest(chunk_ids, chunk_masses, chunk_keys) c(id, mass, key) left join unnest(keys, sources) k(entity, source) on k.entity = c.key;
    end if;
    keys := next_keys;
    masses := next_masses;
    chunks := next_chunks;
    sources := next_sources;
  end loop;
end $f$;

revoke all on function graph_walk from public;
grant execute on function graph_walk to carrel_app;
