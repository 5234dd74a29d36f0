-- Return retired search indexes that a rollback no longer needs: p_rollback_period is over, or a later search index was
-- retired. A job removes the search indexes of deleted knowledge bases.
create or replace function find_expired_indexes(p_rollback_period interval, p_limit int)
returns table(tenant_id uuid, index_id uuid)
language sql stable security definer set search_path = pg_catalog, public, pg_temp as $f$
  select i.tenant_id, i.id from search_index i
   where i.state = 'retired' and (i.retired_at is null or i.retired_at <= now() - greatest(p_rollback_period, interval '1 min')
      or (i.retired_at <= now() - interval '1 min'
          and exists (select from search_index n where n.tenant_id = i.tenant_id and n.kb_id = i.kb_id
                         and n.state = 'retired' and n.retired_at > i.retired_at)))
     and not exists (select from knowledge_base k
                      where k.tenant_id = i.tenant_id and k.id = i.kb_id and k.deleted_at is not null)
   limit least(p_limit, 10000)
$f$;

revoke all on function find_expired_indexes from public;
grant execute on function find_expired_indexes to carrel_app;
