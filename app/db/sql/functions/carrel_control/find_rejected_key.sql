-- Return the owner of an API key that is no longer valid, for the audit log.
create or replace function find_rejected_key(p_key_hash bytea)
returns table(tenant_id uuid, key_id uuid, key_name text)
language sql stable security definer rows 1 set search_path = pg_catalog, public, pg_temp as $f$
  select k.tenant_id, k.id, k.name from api_key k where k.key_hash = p_key_hash
$f$;

revoke all on function find_rejected_key from public;
grant execute on function find_rejected_key to carrel_app;
