-- Claim one job for a worker. The tenant with the fewest running jobs comes first, then the tenant that was served
-- longest ago. Priority orders only the jobs of one tenant. Periodic jobs run one at a time, and the limit of the
-- system tenant does not count them. With p_idle, only a tenant without a running job is served. Webhook deliveries are
-- claimed separately. A loose index scan finds tenants and limited API keys. The table lock makes turns and limits
-- exact.
create or replace function claim_work(p_worker text, p_lease interval, p_tenant_concurrency int, p_idle boolean)
returns table(tenant_id uuid, id uuid, kind text, document_id uuid, payload jsonb, attempts int, max_attempts int,
              every interval)
language plpgsql security definer set search_path = pg_catalog, public, pg_temp set plan_cache_mode = auto
set enable_seqscan = off as $f$
#variable_conflict use_column
declare candidate record; picked uuid;
begin
  lock table claim_lock in exclusive mode;
  for candidate in
    with recursive waiting(tenant_id) as (
      (select j.tenant_id from job j where j.state = 'ready' and j.quota_key_id is null and j.kind <> 'send_webhook'
        order by j.tenant_id limit 1)
      union all
      select (select j.tenant_id from job j
               where j.state = 'ready' and j.quota_key_id is null and j.kind <> 'send_webhook' and j.tenant_id > w.tenant_id
               order by j.tenant_id limit 1)
        from waiting w where w.tenant_id is not null
    ), waiting_keys(tenant_id, key_id) as (
      (select j.tenant_id, j.quota_key_id from job j where j.state = 'ready' and j.quota_key_id is not null
        order by j.tenant_id, j.quota_key_id limit 1)
      union all
      select further.* from waiting_keys w cross join lateral (
        select j.tenant_id, j.quota_key_id from job j
         where j.state = 'ready' and j.quota_key_id is not null
           and (j.tenant_id, j.quota_key_id) > (w.tenant_id, w.key_id)
         order by j.tenant_id, j.quota_key_id limit 1) further
    ), busy as (
      select r.tenant_id, count(*) filter (where r.every is null) ordinary, count(r.every) periodic
        from job r where r.state = 'running' and r.kind <> 'send_webhook' group by r.tenant_id
    ), busy_keys as (
      select r.tenant_id, r.quota_key_id key_id, count(*) running
        from job r where r.state = 'running' and r.quota_key_id is not null group by r.tenant_id, r.quota_key_id
    ), open_keys as (
      select w.tenant_id, array_agg(w.key_id) keys
        from waiting_keys w
        left join busy_keys b on b.tenant_id = w.tenant_id and b.key_id = w.key_id
        left join api_key k on k.tenant_id = w.tenant_id and k.id = w.key_id
       where coalesce(b.running, 0) < coalesce((k.quotas ->> 'concurrent_ingestions')::int, p_tenant_concurrency)
       group by w.tenant_id
    ), candidates as (
      select coalesce(w.tenant_id, o.tenant_id) tenant_id, o.keys
        from waiting w full join open_keys o on o.tenant_id = w.tenant_id
    )
    select w.tenant_id, false periodic, coalesce(b.ordinary, 0) running, coalesce(l.last_claim, '-infinity') since,
           w.keys
      from candidates w left join busy b on b.tenant_id = w.tenant_id left join tenant_queue l on l.tenant_id = w.tenant_id
     where w.tenant_id is not null and coalesce(b.ordinary, 0) < coalesce(l.max_running, p_tenant_concurrency)
       and (not p_idle or coalesce(b.ordinary, 0) = 0)
    union all
    select system_tenant(), true, 0, min(j.run_at), null from job j
     where j.tenant_id = system_tenant() and j.every is not null and j.state = 'ready' and j.run_at <= now()
    having min(j.run_at) is not null
       and not exists (select from busy b where b.tenant_id = system_tenant() and b.periodic > 0)
     order by running, since
  loop
    select first.id into picked from (
      select * from (
        select j.id, j.priority, j.run_at from job j
         where j.tenant_id = candidate.tenant_id and j.state = 'ready' and j.quota_key_id is null
           and j.kind <> 'send_webhook' and j.run_at <= now() and (j.every is not null) = candidate.periodic
         order by j.priority desc, j.run_at, j.id limit 1 for update skip locked) of_none
      union all
      select of_key.* from unnest(candidate.keys) key cross join lateral (
        select j.id, j.priority, j.run_at from job j
         where j.tenant_id = candidate.tenant_id and j.state = 'ready' and j.quota_key_id = key and j.run_at <= now()
         order by j.priority desc, j.run_at, j.id limit 1 for update skip locked) of_key
    ) first order by first.priority desc, first.run_at, first.id limit 1;
    exit when found;
  end loop;
  if picked is null then return; end if;
  if not candidate.periodic then
    insert into tenant_queue (tenant_id, last_claim) values (candidate.tenant_id, clock_timestamp())
      on conflict (tenant_id) do update set last_claim = excluded.last_claim;
  end if;
  return query update job j
     set state = 'running', attempts = j.attempts + 1, worker = p_worker, lease_until = clock_timestamp() + p_lease
   where j.tenant_id = candidate.tenant_id and j.id = picked
   returning j.tenant_id, j.id, j.kind, j.document_id, j.payload, j.attempts, j.max_attempts, j.every;
end $f$;

revoke all on function claim_work from public;
grant execute on function claim_work to carrel_app;
