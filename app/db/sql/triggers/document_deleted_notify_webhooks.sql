-- Send document.deleted to webhooks.
create or replace trigger document_deleted_notify_webhooks after delete on document
  referencing old table as former_rows
  for each statement
  execute function notify_document_deletion_webhooks();
