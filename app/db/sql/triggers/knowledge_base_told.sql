-- Send knowledge_base.created, .updated and .deleted to webhooks.
create or replace trigger knowledge_base_told after insert or update on knowledge_base
  for each row
  execute function tell_knowledge_base();
