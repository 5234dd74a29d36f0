-- Claim one webhook delivery for a worker. The tenant with the fewest running deliveries comes first,
-- then the delivery that has been due longest.
create or replace function claim_delivery(p_worker text, p_lease interval, p_tenant_concurrency int)
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
      (select j.tenant_id from job j where j.state = 'ready' and j.kind = 'send_webhook' order by j.tenant_id limit 1)
      union all
      select (select j.tenant_id from job j
               where j.state = 'ready' and j.kind = 'send_webhook' and j.tenant_id > w.tenant_id
               order by j.tenant_id limit 1)
        from waiting w where w.tenant_id is not null
    ), busy as (
      select r.tenant_id, count(*) running from job r where r.state = 'running' and r.kind = 'send_webhook'
       group by r.tenant_id
    )
    select w.tenant_id, coalesce(b.running, 0) running, first.run_at
      from waiting w left join busy b on b.tenant_id = w.tenant_id
     cross join lateral (
       select j.run_at from job j
        where j.tenant_id = w.tenant_id and j.state = 'ready' and j.kind = 'send_webhook'
        order by j.run_at, j.id limit 1) first
     where coalesce(b.running, 0) < p_tenant_concurrency and first.run_at <= now()
     order by running, first.run_at
  loop
    select j.id into picked from job j
     where j.tenant_id = candidate.tenant_id and j.state = 'ready' and j.kind = 'send_webhook' and j.run_at <= now()
     order by j.run_at, j.id limit 1 for update skip locked;
    exit when found;
  end loop;
  if picked is null then return; end if;
  return query update job j
     set state = 'running', attempts = j.attempts + 1, worker = p_worker, lease_until = clock_timestamp() + p_lease
   where j.tenant_id = candidate.tenant_id and j.id = picked
   returning j.tenant_id, j.id, j.kind, j.document_id, j.payload, j.attempts, j.max_attempts, j.every;
end $f$;

revoke all on function claim_delivery from public;
grant execute on function claim_delivery to carrel_app;
