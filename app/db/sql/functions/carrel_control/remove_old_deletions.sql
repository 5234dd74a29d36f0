-- Remove finished deletion receipts older than p_retention, also those of deleted tenants, and return their number. The
-- last seven days always remain.
create or replace function remove_old_deletions(p_retention interval, p_limit int) returns int
language sql security definer set search_path = pg_catalog, public, pg_temp as $f$
  with old as (
    select d.tenant_id, d.id from deletion d
     where d.finished_at is not null and d.requested_at < now() - greatest(p_retention, interval '7 days')
     limit least(p_limit, 10000)
  ), removed as (
    delete from deletion d using old o where (d.tenant_id, d.id) = (o.tenant_id, o.id) returning 1
  ) select count(*)::int from removed
$f$;

revoke all on function remove_old_deletions from public;
grant execute on function remove_old_deletions to carrel_app;
