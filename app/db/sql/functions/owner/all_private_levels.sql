-- Return the key that private_frequency uses for the sum of all private levels.
create or replace function all_private_levels() returns uuid language sql immutable parallel safe
set search_path = pg_catalog, public, pg_temp as $f$
  select '00000000-0000-0000-0000-000000000000'::uuid
$f$;

revoke all on function all_private_levels from public;
grant execute on function all_private_levels to carrel_app, carrel_search;
