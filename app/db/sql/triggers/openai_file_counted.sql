-- Count the bytes of stored files.
create or replace trigger openai_file_counted after insert or delete on openai_file
  for each row
  execute function count_kept_file();
