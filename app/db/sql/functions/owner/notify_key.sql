-- Notify API processes that an API key or its tenant has changed, so that they drop it from their caches.
create or replace function notify_key() returns trigger language plpgsql set search_path = pg_catalog, public, pg_temp as $f$
begin
  perform pg_notify('carrel_key', notification_name(to_jsonb(old) ->> tg_argv[0]));
  return null;
end $f$;

revoke all on function notify_key from public;
