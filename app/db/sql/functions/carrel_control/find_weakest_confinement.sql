-- Return the weakest parser confinement among live workers. A worker is live if its last heartbeat is within p_within.
create or replace function find_weakest_confinement(p_within interval, out level text, out detail text) returns setof record
language sql stable security definer set search_path = pg_catalog, public, pg_temp as $f$
  select w.confinement, w.confinement_detail from worker_heartbeat w
   where w.tenant_id = system_tenant() and w.heartbeat_at > clock_timestamp() - p_within and w.confinement is not null
   order by array_position(array['none', 'partial', 'full'], w.confinement), w.name limit 1
$f$;

revoke all on function find_weakest_confinement from public;
grant execute on function find_weakest_confinement to carrel_app;
