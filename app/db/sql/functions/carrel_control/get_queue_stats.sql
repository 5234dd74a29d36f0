-- Return statistics of the jobs of the transaction's tenant, or of all tenants if the transaction has none. The
-- recursions jump from one tenant, key and priority to the next in the partial indexes. Their time does not grow with
-- the number of jobs. Counts stop at 1,000, because the rows of a busy table must be looked up one by one.
create or replace function get_queue_stats(out waiting int, out oldest_at timestamptz, out postponed int,
                                           out running int, out failed int)
language plpgsql stable security definer set search_path = pg_catalog, public, pg_temp
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $f$
declare
  lowest uuid := coalesce(current_tenant(), '00000000-0000-0000-0000-000000000000');
  highest uuid := coalesce(current_tenant(), 'ffffffff-ffff-ffff-ffff-ffffffffffff');
begin
  with recursive ordinary(tenant_id, priority, first_at, turn) as (
    (select j.tenant_id, j.priority, j.run_at, 0 from job j
      where j.state = 'ready' and j.quota_key_id is null and j.kind <> 'send_webhook'
        and j.tenant_id >= lowest and j.tenant_id <= highest
      order by j.tenant_id, j.priority desc, j.run_at limit 1)
    union all
    select next.* from ordinary o cross join lateral (
      (select j.tenant_id, j.priority, j.run_at, 1 from job j
        where j.state = 'ready' and j.quota_key_id is null and j.kind <> 'send_webhook'
          and j.tenant_id = o.tenant_id and j.priority < o.priority
        order by j.priority desc, j.run_at limit 1)
      union all
      (select j.tenant_id, j.priority, j.run_at, 2 from job j
        where j.state = 'ready' and j.quota_key_id is null and j.kind <> 'send_webhook'
          and j.tenant_id > o.tenant_id and j.tenant_id <= highest
        order by j.tenant_id, j.priority desc, j.run_at limit 1)
      order by 4 limit 1) next
  ), of_keys(tenant_id, key_id, priority, first_at, turn) as (
    (select j.tenant_id, j.quota_key_id, j.priority, j.run_at, 0 from job j
      where j.state = 'ready' and j.quota_key_id is not null and j.tenant_id >= lowest and j.tenant_id <= highest
      order by j.tenant_id, j.quota_key_id, j.priority desc, j.run_at limit 1)
    union all
    select next.* from of_keys o cross join lateral (
      (select j.tenant_id, j.quota_key_id, j.priority, j.run_at, 1 from job j
        where j.state = 'ready' and j.quota_key_id is not null
          and j.tenant_id = o.tenant_id and j.quota_key_id = o.key_id and j.priority < o.priority
        order by j.priority desc, j.run_at limit 1)
      union all
      (select j.tenant_id, j.quota_key_id, j.priority, j.run_at, 2 from job j
        where j.state = 'ready' and j.quota_key_id is not null
          and (j.tenant_id, j.quota_key_id) > (o.tenant_id, o.key_id) and j.tenant_id <= highest
        order by j.tenant_id, j.quota_key_id, j.priority desc, j.run_at limit 1)
      order by 5 limit 1) next
  ), deliveries(tenant_id, first_at) as (
    (select j.tenant_id, j.run_at from job j
      where j.state = 'ready' and j.kind = 'send_webhook' and j.tenant_id >= lowest and j.tenant_id <= highest
      order by j.tenant_id, j.run_at limit 1)
    union all
    select next.* from deliveries d cross join lateral (
      select j.tenant_id, j.run_at from job j
       where j.state = 'ready' and j.kind = 'send_webhook' and j.tenant_id > d.tenant_id and j.tenant_id <= highest
       order by j.tenant_id, j.run_at limit 1) next
  )
  select (
    select count(*) from (
      select 1 from ordinary o cross join lateral (
        select from job j
         where j.state = 'ready' and j.quota_key_id is null and j.kind <> 'send_webhook'
           and j.tenant_id = o.tenant_id and j.priority = o.priority
           and j.run_at <= now()) jobs
      union all
      select 1 from of_keys o cross join lateral (
        select from job j
         where j.state = 'ready' and j.quota_key_id is not null and j.tenant_id = o.tenant_id
           and j.quota_key_id = o.key_id and j.priority = o.priority
           and j.run_at <= now()) jobs
      union all
      select 1 from deliveries d cross join lateral (
        select from job j
         where j.state = 'ready' and j.kind = 'send_webhook' and j.tenant_id = d.tenant_id
           and j.run_at <= now()) jobs
      limit 1000) counted
  ), (
    select min(firsts.first_at) from (
      select first_at from ordinary union all select first_at from of_keys union all select first_at from deliveries
    ) firsts where firsts.first_at <= now()
  ), (
    select count(*) from (
      select 1 from ordinary o cross join lateral (
        select from job j
         where j.state = 'ready' and j.quota_key_id is null and j.kind <> 'send_webhook'
           and j.tenant_id = o.tenant_id and j.priority = o.priority
           and j.run_at > now() and j.every is null) jobs
      union all
      select 1 from of_keys o cross join lateral (
        select from job j
         where j.state = 'ready' and j.quota_key_id is not null and j.tenant_id = o.tenant_id
           and j.quota_key_id = o.key_id and j.priority = o.priority
           and j.run_at > now()) jobs
      union all
      select 1 from deliveries d cross join lateral (
        select from job j
         where j.state = 'ready' and j.kind = 'send_webhook' and j.tenant_id = d.tenant_id
           and j.run_at > now()) jobs
      limit 1000) counted
  ) into waiting, oldest_at, postponed;

  select count(*) into running from job j
   where j.state = 'running' and j.tenant_id >= lowest and j.tenant_id <= highest;

  with recursive owners(tenant_id) as (
    (select j.tenant_id from job j
      where j.state = 'dead' and j.tenant_id >= lowest and j.tenant_id <= highest order by j.tenant_id limit 1)
    union all
    select next.tenant_id from owners o cross join lateral (
      select j.tenant_id from job j
       where j.state = 'dead' and j.tenant_id > o.tenant_id and j.tenant_id <= highest
       order by j.tenant_id limit 1) next
  )
  select count(*) into failed from (
    select 1 from owners o cross join lateral (
      select from job j
       where j.state = 'dead' and j.tenant_id = o.tenant_id and j.run_at > now() - interval '24 h') jobs
    limit 1000) counted;
end $f$;

revoke all on function get_queue_stats from public;
grant execute on function get_queue_stats to carrel_app;
