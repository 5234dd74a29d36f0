-- Return the number of workers whose last heartbeat is within p_within.
create or replace function count_workers(p_within interval) returns int
language sql stable security definer set search_path = pg_catalog, public, pg_temp as $f$
  select count(*)::int from worker_heartbeat w
   where w.tenant_id = system_tenant() and w.heartbeat_at > clock_timestamp() - p_within
$f$;

revoke all on function count_workers from public;
grant execute on function count_workers to carrel_app;
