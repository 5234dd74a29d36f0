-- Enqueue knowledge_base.created, .updated or .deleted. A change of chunking or language takes effect when a new search
-- index replaces the live one. The event of that moment is knowledge_base.reindexed.
create or replace function notify_knowledge_base_webhooks() returns trigger
language plpgsql security definer set search_path = pg_catalog, public, pg_temp set plan_cache_mode = auto as $f$
declare
  event text := 'knowledge_base.created';
  ignored text[] := array['updated_at', 'pending_metadata_filter', 'chunking', 'language'];
  kb_name text := new.name;
begin
  if tg_op = 'UPDATE' then
    event := 'knowledge_base.updated';
    if old.deleted_at is null and new.deleted_at is not null then
      event := 'knowledge_base.deleted';
      kb_name := old.name;
    elsif new.deleted_at is not null or to_jsonb(old) - ignored = to_jsonb(new) - ignored then
      return null;
    end if;
  end if;
  perform notify_webhooks(new.tenant_id, event, jsonb_build_object(
    'knowledge_base', new.id, 'knowledge_base_name', kb_name));
  return null;
end $f$;

revoke all on function notify_knowledge_base_webhooks from public;
