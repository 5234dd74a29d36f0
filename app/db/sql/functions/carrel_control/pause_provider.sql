-- Pause all calls to a model provider, for ten minutes at most. After the pause, a call tries the provider again.
create or replace function pause_provider(p_provider uuid, p_milliseconds int) returns void
language sql strict security definer set search_path = pg_catalog, public, pg_temp as $f$
  insert into provider_rate_limit as p (tenant_id, provider, paused_until)
  values (system_tenant(), p_provider, clock_timestamp() + least(p_milliseconds, 600000) * interval '1 ms')
  on conflict (tenant_id, provider) do update set paused_until = greatest(p.paused_until, excluded.paused_until)
$f$;

revoke all on function pause_provider from public;
grant execute on function pause_provider to carrel_app;
