-- Notify API processes of a changed or deleted API key.
create or replace trigger api_key_changed after delete or update on api_key
  for each row
  execute function notify_key('tenant_id');
