-- Enqueue document.deleted for each deleted document. Documents deleted with their knowledge base or tenant have no event.
create or replace function notify_document_deletion_webhooks() returns trigger
language plpgsql security definer set search_path = pg_catalog, public, pg_temp set plan_cache_mode = auto as $f$
declare deleted record;
begin
  if not exists (select from webhook w where w.tenant_id = (select f.tenant_id from former_rows f limit 1) and w.enabled
                    and 'document.deleted' = any(w.events)) then return null; end if;
  for deleted in
    select f.tenant_id, f.id, f.kb_id, f.version, k.name from former_rows f
      join knowledge_base k on k.tenant_id = f.tenant_id and k.id = f.kb_id and k.deleted_at is null
  loop
    perform notify_webhooks(deleted.tenant_id, 'document.deleted', jsonb_build_object(
      'document', deleted.id, 'knowledge_base', deleted.kb_id, 'knowledge_base_name', deleted.name,
      'version', deleted.version, 'status', 'deleted'));
  end loop;
  return null;
end $f$;

revoke all on function notify_document_deletion_webhooks from public;
