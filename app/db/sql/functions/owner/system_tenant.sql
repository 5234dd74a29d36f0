-- Return the id of the system tenant, which owns the shared level and the service's own rows.
create or replace function system_tenant() returns uuid language sql immutable parallel safe
  return '00000000-0000-0000-0000-000000000001'::uuid;

revoke all on function system_tenant from public;
grant execute on function system_tenant to carrel_app, carrel_search, carrel_control;
