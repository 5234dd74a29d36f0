-- Send quota.near to webhooks when a tenant's quotas change.
create or replace trigger tenant_notify_webhooks after update on tenant
  for each row
  when (old.quotas is distinct from new.quotas)
  execute function notify_quota_change_webhooks();
