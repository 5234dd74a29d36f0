-- Enqueue document.ready or document.failed.
create or replace function notify_document_webhooks() returns trigger
language plpgsql security definer set search_path = pg_catalog, public, pg_temp set plan_cache_mode = auto as $f$
declare kb_name text;
begin
  if not exists (select from webhook w where w.tenant_id = new.tenant_id and w.enabled
                    and 'document.' || new.status = any(w.events)) then return null; end if;
  select k.name into kb_name from knowledge_base k where k.tenant_id = new.tenant_id and k.id = new.kb_id;
  perform notify_webhooks(new.tenant_id, 'document.' || new.status, jsonb_build_object(
    'document', new.id, 'knowledge_base', new.kb_id, 'knowledge_base_name', kb_name, 'version', new.version,
    'status', new.status, 'error', case when new.status = 'failed' then
      jsonb_build_object('code', new.error -> 'code', 'retryable', new.error -> 'retryable') end));
  return null;
end $f$;

revoke all on function notify_document_webhooks from public;
