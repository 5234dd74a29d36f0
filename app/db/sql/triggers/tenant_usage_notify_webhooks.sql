-- Send quota.near to webhooks when stored documents, bytes or chunks grow.
create or replace trigger tenant_usage_notify_webhooks after update on tenant_usage
  for each row
  execute function notify_storage_quota_webhooks();
