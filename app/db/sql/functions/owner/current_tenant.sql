-- Return the tenant of the transaction, or null. After a commit the setting reads ''.
create or replace function current_tenant() returns uuid language sql stable parallel safe
  return nullif(pg_catalog.current_setting('app.tenant_id', true), '')::uuid;

revoke all on function current_tenant from public;
grant execute on function current_tenant to carrel_app, carrel_search, carrel_control;
