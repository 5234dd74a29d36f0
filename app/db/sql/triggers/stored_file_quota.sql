-- Limit the rows of stored_file by the quota `files`.
create or replace trigger stored_file_quota after insert on stored_file
  referencing new table as new_rows
  for each statement
  execute function check_stored_file_quota('files');
