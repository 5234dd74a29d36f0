-- Enqueue knowledge_base.reindexed.
create or replace function notify_reindex_webhooks() returns trigger
language plpgsql security definer set search_path = pg_catalog, public, pg_temp set plan_cache_mode = auto as $f$
declare kb_name text;
begin
  select k.name into kb_name from knowledge_base k where k.tenant_id = new.tenant_id and k.id = new.kb_id;
  perform notify_webhooks(new.tenant_id, 'knowledge_base.reindexed', jsonb_build_object(
    'knowledge_base', new.kb_id, 'knowledge_base_name', kb_name));
  return null;
end $f$;

revoke all on function notify_reindex_webhooks from public;
