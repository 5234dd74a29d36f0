-- Return knowledge bases with a pending metadata filter that no job applies. A job that died at least half an hour ago
-- does not count. Nested loops are disabled: without statistics, they would compare every knowledge base with every
-- job.
create or replace function find_stalled_backfills(p_limit int) returns table(tenant_id uuid, kb_id uuid)
language sql stable security definer set search_path = pg_catalog, public, pg_temp set enable_nestloop = off as $f$
  select k.tenant_id, k.id from knowledge_base k
   where k.pending_metadata_filter is not null and k.deleted_at is null
     and not exists (select from job j
                      where j.tenant_id = k.tenant_id and j.kind = 'backfill_metadata'
                        and j.payload ->> 'knowledge_base' = k.id::text
                        and (j.state <> 'dead' or j.run_at > now() - interval '30 min'))
   limit least(p_limit, 10000)
$f$;

revoke all on function find_stalled_backfills from public;
grant execute on function find_stalled_backfills to carrel_app;
