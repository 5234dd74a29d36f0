-- Enqueue knowledge_base.created, .updated or .deleted. A change of chunking or language counts when the next search index
-- replaces the live one: that is knowledge_base.reindexed.
create or replace function tell_knowledge_base() returns trigger
language plpgsql security definer set search_path = pg_catalog, public, pg_temp set plan_cache_mode = auto as $f$
declare
  event text := 'knowledge_base.created';
  unseen text[] := array['updated_at', 'pending_filter', 'chunking', 'language'];
  base text := new.name;
begin
  if tg_op = 'UPDATE' then
    event := 'knowledge_base.updated';
    if old.deleted_at is null and new.deleted_at is not null then
      event := 'knowledge_base.deleted';
      base := old.name;
    elsif new.deleted_at is not null or to_jsonb(old) - unseen = to_jsonb(new) - unseen then
      return null;
    end if;
  end if;
  perform tell_webhooks(new.tenant_id, event, jsonb_build_object(
    'knowledge_base', new.id, 'knowledge_base_name', base));
  return null;
end $f$;

revoke all on function tell_knowledge_base from public;
