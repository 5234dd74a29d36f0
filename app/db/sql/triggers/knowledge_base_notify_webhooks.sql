-- Send knowledge_base.created, .updated and .deleted to webhooks.
create or replace trigger knowledge_base_notify_webhooks after insert or update on knowledge_base
  for each row
  execute function notify_knowledge_base_webhooks();
