-- Notify API processes of a changed or deleted tenant.
create or replace trigger tenant_changed after delete or update on tenant
  for each row
  execute function notify_key('id');
