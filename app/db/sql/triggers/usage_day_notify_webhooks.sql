-- Send quota.near to webhooks when embedding tokens of a day grow.
create or replace trigger usage_day_notify_webhooks after insert or update on usage_day
  for each row
  execute function notify_daily_quota_webhooks();
