-- Return search indexes that need maintenance. drifted: the mean chunk length now differs from that of the term weights
-- by more than the share p_max_drift. unrouted: more than the share p_max_changed_share of the chunks, or at least
-- p_max_changed_chunks, changed since the routing vectors were made. A search index with a waiting or running job is
-- left out, and for ten minutes one whose job died. Nested loops are disabled: without statistics, they would compare
-- every search index with every job.
create or replace function find_outdated_indexes(p_max_drift float8, p_max_changed_share float8, p_max_changed_chunks bigint,
                                                 p_limit int)
returns table(tenant_id uuid, index_id uuid, drifted boolean, unrouted boolean)
language sql stable security definer set search_path = pg_catalog, public, pg_temp set enable_nestloop = off as $f$
  with enqueued as materialized (
    select distinct j.tenant_id, j.kind, j.payload ->> 'index' as index_id from job j
     where j.kind in ('maintain_index', 'refresh_routing_profile')
       and (j.state <> 'dead' or j.run_at > now() - interval '10 min')
  ), examined as (
    select i.tenant_id, i.id,
           t.chunks > 0 and t.tokens > 0
             and abs((t.tokens / nullif(t.chunks, 0))::float8 / i.avgdl - 1) > p_max_drift as drifted,
           i.state = 'live' and case when p.index_id is null then t.chunks > 0
             else p.changed_chunks > least(p_max_changed_share * p.chunks, p_max_changed_chunks - 1) end as unrouted
      from search_index i
      join knowledge_base k on k.tenant_id = i.tenant_id and k.id = i.kb_id and k.deleted_at is null
      left join (select l.tenant_id, l.index_id, sum(l.chunks) as chunks, sum(l.tokens) as tokens
                   from index_totals l group by 1, 2) t
        on t.tenant_id = i.tenant_id and t.index_id = i.id
      left join routing_profile p on p.tenant_id = i.tenant_id and p.index_id = i.id
  ), outdated as (
    select f.tenant_id, f.id, coalesce(f.drifted, false) and m.index_id is null as drifted,
           coalesce(f.unrouted, false) and c.index_id is null as unrouted
      from examined f
      left join enqueued m on m.tenant_id = f.tenant_id and m.index_id = f.id::text and m.kind = 'maintain_index'
      left join enqueued c
        on c.tenant_id = f.tenant_id and c.index_id = f.id::text and c.kind = 'refresh_routing_profile'
     where f.drifted or f.unrouted
  )
  select w.tenant_id, w.id, w.drifted, w.unrouted
    from outdated w where w.drifted or w.unrouted limit least(p_limit, 10000)
$f$;

revoke all on function find_outdated_indexes from public;
grant execute on function find_outdated_indexes to carrel_app;
