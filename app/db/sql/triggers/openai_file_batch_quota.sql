-- Limit the rows of openai_file_batch by the quota `file_batches`.
create or replace trigger openai_file_batch_quota after insert on openai_file_batch
  referencing new table as new_rows
  for each statement
  execute function check_openai_file_batch_quota('file_batches');
