-- Limit the rows of idempotency_key by the quota `stored_responses`.
create or replace trigger idempotency_key_quota after insert on idempotency_key
  referencing new table as new_rows
  for each statement
  execute function check_idempotency_key_quota('stored_responses');
