-- Send knowledge_base.reindexed to webhooks when a search index goes live.
create or replace trigger search_index_notify_webhooks after update on search_index
  for each row
  when (old.state <> 'live' and new.state = 'live')
  execute function notify_reindex_webhooks();
