-- Count a new document.
create or replace trigger document_added after insert on document
  for each row
  execute function count_document();
