-- Limit the rows of openai_batch_file by the quota `batch_files`.
create or replace trigger openai_batch_file_quota after insert on openai_batch_file
  referencing new table as new_rows
  for each statement
  execute function check_openai_batch_file_quota('batch_files');
