-- Limit the rows of file_batch by the quota `file_batches`.
create or replace trigger file_batch_quota after insert on file_batch
  referencing new table as new_rows
  for each statement
  execute function check_file_batch_quota('file_batches');
