-- Return search indexes whose chunks have changed since index maintenance last merged their totals.
create or replace function find_changed_indexes(p_limit int) returns table(tenant_id uuid, index_id uuid)
language sql stable security definer set search_path = pg_catalog, public, pg_temp as $f$
  select distinct t.tenant_id, t.index_id from index_totals t where not t.merged limit least(p_limit, 10000)
$f$;

revoke all on function find_changed_indexes from public;
grant execute on function find_changed_indexes to carrel_app;
