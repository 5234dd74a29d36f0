-- Send quota.near to webhooks when a tenant's quotas change.
create or replace trigger tenant_told after update on tenant
  for each row
  when (old.quotas is distinct from new.quotas)
  execute function tell_changed_quotas();
