-- Subtract deleted documents from the counters.
create or replace trigger document_deleted after delete on document
  referencing old table as former_rows
  for each statement
  execute function uncount_documents();
