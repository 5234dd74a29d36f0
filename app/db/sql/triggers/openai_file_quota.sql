-- Limit the rows of openai_file by the quota `files`.
create or replace trigger openai_file_quota after insert on openai_file
  referencing new table as new_rows
  for each statement
  execute function check_openai_file_quota('files');
