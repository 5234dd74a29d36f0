-- Limit the rows of api_key by the quota `api_keys`.
create or replace trigger api_key_quota after insert on api_key
  referencing new table as new_rows
  for each statement
  execute function check_api_key_quota('api_keys');
