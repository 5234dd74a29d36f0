-- Enqueue quota.near if usage is at least 80 % of the limit and was below it before.
create or replace function notify_quota_webhooks(p_tenant uuid, p_quota text, p_limit numeric, p_used numeric,
                                                 p_was_near boolean)
returns void
language plpgsql set search_path = pg_catalog, public, pg_temp set plan_cache_mode = auto as $f$
begin
  if p_used >= p_limit * 0.8 and not p_was_near then
    perform notify_webhooks(p_tenant, 'quota.near', jsonb_build_object(
      'quota', p_quota, 'limit', p_limit, 'used', p_used));
  end if;
end $f$;

revoke all on function notify_quota_webhooks from public;
