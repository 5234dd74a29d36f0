-- Notify API processes of a document's progress and of its deletion.
create or replace trigger document_changed after delete or update of status, progress, version on document
  for each row
  execute function notify_document();
