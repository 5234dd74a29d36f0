-- Send quota.near to webhooks when stored documents, bytes or chunks grow.
create or replace trigger tenant_usage_told after update on tenant_usage
  for each row
  execute function tell_stored_quotas();
