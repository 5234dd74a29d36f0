-- Return deletions that are unfinished p_age after they were requested, the oldest first.
create or replace function find_unfinished_deletions(p_age interval, p_limit int) returns table(tenant_id uuid, deletion_id uuid)
language sql stable security definer set search_path = pg_catalog, public, pg_temp as $f$
  select d.tenant_id, d.id from deletion d
   where d.finished_at is null and d.requested_at < now() - p_age
   order by d.requested_at limit least(p_limit, 10000)
$f$;

revoke all on function find_unfinished_deletions from public;
grant execute on function find_unfinished_deletions to carrel_app;
