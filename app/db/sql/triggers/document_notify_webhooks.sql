-- Send document.ready and document.failed to webhooks.
create or replace trigger document_notify_webhooks after update on document
  for each row
  when (old.status is distinct from new.status and new.status in ('ready', 'failed'))
  execute function notify_document_webhooks();
