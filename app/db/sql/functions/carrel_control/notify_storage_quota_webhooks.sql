-- Enqueue quota.near if stored documents, bytes or chunks pass 80 % of the tenant's quota.
create or replace function notify_storage_quota_webhooks() returns trigger
language plpgsql security definer set search_path = pg_catalog, public, pg_temp set plan_cache_mode = auto as $f$
declare tenant_quotas jsonb;
begin
  if not exists (select from webhook w where w.tenant_id = new.tenant_id and w.enabled
                    and 'quota.near' = any(w.events)) then return null; end if;
  select t.quotas into tenant_quotas from tenant t where t.id = new.tenant_id;
  perform notify_quota_webhooks(new.tenant_id, q.name, (tenant_quotas ->> q.name)::numeric, q.used,
                                q.before >= (tenant_quotas ->> q.name)::numeric * 0.8)
     from (values ('documents', old.documents, new.documents), ('stored_bytes', old.stored_bytes, new.stored_bytes),
                  ('chunks', old.chunks, new.chunks)) q(name, before, used)
    where tenant_quotas ->> q.name is not null and q.used > q.before;
  return null;
end $f$;

revoke all on function notify_storage_quota_webhooks from public;
