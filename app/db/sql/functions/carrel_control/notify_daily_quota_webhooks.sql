-- Enqueue quota.near if the embedding tokens of a tenant's day pass 80 % of its quota. Each API key has a separate row.
-- Two transactions can add at the same time: the lock on quota_lock lets the second see the row of the first.
create or replace function notify_daily_quota_webhooks() returns trigger
language plpgsql security definer set search_path = pg_catalog, public, pg_temp set plan_cache_mode = auto as $f$
declare quota_limit numeric; used numeric; added numeric := new.embedding_tokens + new.query_tokens;
begin
  if not exists (select from webhook w where w.tenant_id = new.tenant_id and w.enabled
                    and 'quota.near' = any(w.events)) then return null; end if;
  select (t.quotas ->> 'embedding_tokens_per_day')::numeric into quota_limit from tenant t where t.id = new.tenant_id;
  if tg_op = 'UPDATE' then added := added - old.embedding_tokens - old.query_tokens; end if;
  if quota_limit is null or added <= 0 then return null; end if;
  insert into quota_lock as q (tenant_id) values (new.tenant_id)
    on conflict (tenant_id) do update set tenant_id = excluded.tenant_id;
  select sum(d.embedding_tokens + d.query_tokens) into used
    from usage_day d where d.tenant_id = new.tenant_id and d.day = new.day;
  perform notify_quota_webhooks(new.tenant_id, 'embedding_tokens_per_day', quota_limit, used,
                                used - added >= quota_limit * 0.8);
  return null;
end $f$;

revoke all on function notify_daily_quota_webhooks from public;
