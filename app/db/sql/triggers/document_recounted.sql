-- Update the counters for changed documents.
create or replace trigger document_recounted after update on document
  referencing old table as former_rows new table as current_rows
  for each statement
  execute function recount_documents();
