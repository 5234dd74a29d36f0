-- Limit the rows of file_batch_file by the quota `batch_files`.
create or replace trigger file_batch_file_quota after insert on file_batch_file
  referencing new table as new_rows
  for each statement
  execute function check_file_batch_file_quota('batch_files');
