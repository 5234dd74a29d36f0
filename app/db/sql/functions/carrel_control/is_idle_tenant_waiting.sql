-- Return whether a tenant without a running job has a job that is due.
create or replace function is_idle_tenant_waiting() returns boolean
language sql stable security definer set search_path = pg_catalog, public, pg_temp set plan_cache_mode = auto
set enable_seqscan = off as $f$
  with recursive waiting(tenant_id) as (
    (select j.tenant_id from job j
      where j.state = 'ready' and j.quota_key_id is null and j.kind <> 'send_webhook' order by j.tenant_id limit 1)
    union all
    select (select j.tenant_id from job j
             where j.state = 'ready' and j.quota_key_id is null and j.kind <> 'send_webhook' and j.tenant_id > w.tenant_id
             order by j.tenant_id limit 1)
      from waiting w where w.tenant_id is not null
  ), waiting_by_keys(tenant_id) as (
    (select j.tenant_id from job j where j.state = 'ready' and j.quota_key_id is not null order by j.tenant_id limit 1)
    union all
    select (select j.tenant_id from job j
             where j.state = 'ready' and j.quota_key_id is not null and j.tenant_id > w.tenant_id
             order by j.tenant_id limit 1)
      from waiting_by_keys w where w.tenant_id is not null
  ), busy as (
    select distinct r.tenant_id from job r where r.state = 'running' and r.every is null and r.kind <> 'send_webhook'
  )
  select exists (
    select from (select w.tenant_id from waiting w union select w.tenant_id from waiting_by_keys w) w
      left join tenant_queue l on l.tenant_id = w.tenant_id
     where w.tenant_id is not null and coalesce(l.max_running, 1) > 0
       and not exists (select from busy b where b.tenant_id = w.tenant_id)
       and (exists (select from job j where j.tenant_id = w.tenant_id and j.state = 'ready' and j.quota_key_id is null
                       and j.kind <> 'send_webhook' and j.run_at <= now() and j.every is null)
         or exists (select from job j where j.tenant_id = w.tenant_id and j.state = 'ready' and j.quota_key_id is not null
                       and j.run_at <= now())))
$f$;

revoke all on function is_idle_tenant_waiting from public;
grant execute on function is_idle_tenant_waiting to carrel_app;
