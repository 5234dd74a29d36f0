-- Return the number of chunks that name an entity, and whether it is a title. Keys that a correction of all documents
-- gives to the entity count too. With p_user_restricted, only chunks of p_scopes and of the open levels count. Every
-- entity then counts as a title, so that the titles of other users' chunks have no effect.
create or replace function graph_entity_chunks(p_tenant uuid, p_index uuid, p_key int4, p_scopes uuid[], p_user_restricted bool, p_alias_keys int4[],
                                               p_alias_targets int4[], p_alias_documents uuid[])
returns table(chunks int, is_title bool) language plpgsql stable rows 1
set search_path = pg_catalog, public, pg_temp as $f$
declare keys int4[] := array[p_key]; splits int := 0; private_chunks int;
begin
  if cardinality(p_alias_keys) > 0 then
    select keys || coalesce(array_agg(a.entity) filter (where a.document is null), '{}'), count(a.document) into keys, splits
      from unnest(p_alias_keys, p_alias_targets, p_alias_documents) a(entity, target, document) where a.target = p_key;
  end if;
  select coalesce(sum(e.chunks), 0) + splits, coalesce(sum(e.titles), 0) > 0 into chunks, is_title
    from entity e where e.tenant_id = p_tenant and e.index_id = p_index and e.key = any(keys);
  if p_user_restricted then
    select coalesce(sum(case when x.scope_key = all_private_levels() then -x.chunks else x.chunks end), 0) into private_chunks
      from private_entity_frequency x
     where x.tenant_id = p_tenant and x.index_id = p_index and x.scope_key = any(p_scopes || all_private_levels()) and x.key = any(keys);
    chunks := greatest(0, chunks + private_chunks);
    is_title := true;
  end if;
  return next;
end $f$;

revoke all on function graph_entity_chunks from public;
