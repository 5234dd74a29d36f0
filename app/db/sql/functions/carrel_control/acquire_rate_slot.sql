-- Take one request and p_tokens tokens from a provider's rate limit, and return 0. If too little is left, return the
-- milliseconds to wait. Both buckets hold up to a sixth of one minute's limit. Background calls need a full request and
-- may then overdraw. Interactive calls may overdraw by half a minute, so a query never waits for background calls. A
-- limit of 0 means no limit: greatest() and least() ignore its null. A negative p_tokens gives tokens back.
create or replace function acquire_rate_slot(p_provider uuid, p_requests_per_minute int, p_tokens_per_minute int,
                                             p_tokens int, p_interactive boolean)
returns int
language plpgsql strict security definer set search_path = pg_catalog, public, pg_temp as $f$
declare
  moment timestamptz := clock_timestamp();
  max_requests int := nullif(p_requests_per_minute, 0);
  max_tokens int := nullif(p_tokens_per_minute, 0);
  reserve float8 := case when p_interactive then 0.5 else 0 end;
  bucket provider_rate_limit;
  wait float8;
begin
  insert into provider_rate_limit as p (tenant_id, provider, requests, tokens, filled_at)
  values (system_tenant(), p_provider, greatest(1, max_requests / 6.0), greatest(1, max_tokens / 6.0), moment)
  on conflict (tenant_id, provider) do update
     set requests = least(excluded.requests, p.requests + max_requests / 60.0
                            * greatest(0, extract(epoch from moment - p.filled_at))),
         tokens = least(excluded.tokens, p.tokens + max_tokens / 60.0
                          * greatest(0, extract(epoch from moment - p.filled_at))),
         filled_at = greatest(moment, p.filled_at)
  returning p.* into bucket;
  wait := greatest(0, 1000 * extract(epoch from bucket.paused_until - moment),
                   60000 * (1 - bucket.requests - reserve * max_requests) / max_requests,
                   60000 * (1 - bucket.tokens - reserve * max_tokens) / max_tokens);
  if wait > 0 then return least(ceil(wait), 3600000); end if;
  update provider_rate_limit p set requests = p.requests - 1, tokens = p.tokens - p_tokens
   where p.tenant_id = system_tenant() and p.provider = p_provider;
  return 0;
end $f$;

revoke all on function acquire_rate_slot from public;
grant execute on function acquire_rate_slot to carrel_app;
