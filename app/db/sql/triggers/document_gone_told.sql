-- Send document.deleted to webhooks.
create or replace trigger document_gone_told after delete on document
  referencing old table as former_rows
  for each statement
  execute function tell_deleted_documents();
