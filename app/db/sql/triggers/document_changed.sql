-- Tell API processes about progress of a document and about its deletion.
create or replace trigger document_changed after delete or update of status, progress, version on document
  for each row
  execute function notify_document();
