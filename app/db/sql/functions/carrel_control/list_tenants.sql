-- Return one page of all tenants except the system tenant, newest first.
create or replace function list_tenants(p_after timestamptz, p_after_id uuid, p_limit int)
returns table(id uuid, name text, created_at timestamptz, deleted_at timestamptz)
language sql stable security definer set search_path = pg_catalog, public, pg_temp as $f$
  select t.id, t.name, t.created_at, t.deleted_at from tenant t
   where t.id <> system_tenant() and (p_after is null or (t.created_at, t.id) < (p_after, p_after_id))
   order by t.created_at desc, t.id desc limit least(p_limit, 201)
$f$;

revoke all on function list_tenants from public;
grant execute on function list_tenants to carrel_app;
