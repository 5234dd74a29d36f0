-- Return a digest that names an object in a notification. Every login of the database can listen and notify,
-- so a name must not be guessed or reversed without the secret.
create or replace function notification_name(p_name text) returns text language sql stable
set search_path = pg_catalog, public, pg_temp as $f$
  select encode(sha256(convert_to(s.secret || p_name, 'UTF8')), 'hex') from public.notification_secret s
$f$;

revoke all on function notification_name from public;
grant execute on function notification_name to carrel_app, carrel_control;
