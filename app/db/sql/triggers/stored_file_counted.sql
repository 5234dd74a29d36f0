-- Count the bytes of stored files.
create or replace trigger stored_file_counted after insert or delete on stored_file
  for each row
  execute function count_stored_file();
