-- Remove audit events older than p_retention and return their number. The last seven days always remain.
create or replace function remove_old_audit_events(p_retention interval, p_limit int)
returns int
language sql security definer set search_path = pg_catalog, public, pg_temp as $f$
  with old as (
    select e.tenant_id, e.created_at, e.id from audit_event e
     where e.created_at < now() - greatest(p_retention, interval '7 days') limit least(p_limit, 10000)
  ), removed as (
    delete from audit_event e using old o
     where (e.tenant_id, e.created_at, e.id) = (o.tenant_id, o.created_at, o.id) returning 1
  ) select count(*)::int from removed
$f$;

revoke all on function remove_old_audit_events from public;
grant execute on function remove_old_audit_events to carrel_app;
