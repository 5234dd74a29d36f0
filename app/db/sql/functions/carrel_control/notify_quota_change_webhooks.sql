-- Enqueue quota.near for stored documents, bytes and chunks if a change of the tenant's quotas brought usage near a limit.
create or replace function notify_quota_change_webhooks() returns trigger
language plpgsql security definer set search_path = pg_catalog, public, pg_temp set plan_cache_mode = auto as $f$
begin
  if not exists (select from webhook w where w.tenant_id = new.id and w.enabled
                    and 'quota.near' = any(w.events)) then return null; end if;
  perform notify_quota_webhooks(new.id, q.name, (new.quotas ->> q.name)::numeric, q.used,
                                coalesce(q.used >= (old.quotas ->> q.name)::numeric * 0.8, false))
     from (select u.documents, u.stored_bytes, u.chunks from tenant_usage u where u.tenant_id = new.id) u
    cross join lateral (values ('documents', u.documents), ('stored_bytes', u.stored_bytes), ('chunks', u.chunks))
          q(name, used)
    where new.quotas ->> q.name is not null;
  return null;
end $f$;

revoke all on function notify_quota_change_webhooks from public;
