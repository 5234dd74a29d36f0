-- Limit the rows of webhook by the quota `webhooks`.
create or replace trigger webhook_quota after insert on webhook
  referencing new table as new_rows
  for each statement
  execute function check_webhook_quota('webhooks');
