-- Return whether every API key of the tenant sees this level: shared or tenant. app/documents/scopes.py computes the
-- same keys.
create or replace function is_open_level(p_scope uuid) returns bool language sql immutable parallel safe
set search_path = pg_catalog, public, pg_temp as $f$
  select p_scope in ('31422a18-ac5a-5dd1-96d8-89a187afeff9', '7685c63c-898a-5fdf-9657-6dbb2c1d163f')
$f$;

revoke all on function is_open_level from public;
grant execute on function is_open_level to carrel_app, carrel_search;
