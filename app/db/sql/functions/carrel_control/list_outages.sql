-- Return the error codes of the outages that live workers report. A worker is live if its last heartbeat is within
-- p_within.
create or replace function list_outages(p_within interval) returns setof text
language sql stable security definer set search_path = pg_catalog, public, pg_temp as $f$
  select distinct code from worker_heartbeat w, unnest(w.outages) code
   where w.tenant_id = system_tenant() and w.heartbeat_at > clock_timestamp() - p_within order by 1
$f$;

revoke all on function list_outages from public;
grant execute on function list_outages to carrel_app;
