-- Return the number of tenants that are not deleted, without the system tenant.
create or replace function count_tenants() returns bigint
language sql stable security definer set search_path = pg_catalog, public, pg_temp as $f$
  select count(*) from tenant t where t.id <> system_tenant() and t.deleted_at is null
$f$;

revoke all on function count_tenants from public;
grant execute on function count_tenants to carrel_app;
