"""Replace advisory locks, which every login can take, by locks of tables and rows that a login has no rights to.

Revision ID: 0047
Revises: 0046

Additions, and functions in the place of those that are there: nothing is rewritten. A process of an earlier version calls
claim_job as before. While it counts a tenant's documents for the first time, it does not wait for writers of this version.
The indexes of the queue are built again, which holds the queue up while Postgres reads the waiting jobs.
"""

from app.db.migrate import run_script, walls

revision = "0047"
down_revision = "0046"
branch_labels = None
depends_on = None

# LOCK TABLE takes a privilege on the table, which no login of a publication has. The tables have no rows and no columns.
TABLES = """
set local lock_timeout = '5s';

create table claim_turn ();
create table owner_turn ();
alter table claim_turn enable row level security, force row level security;
alter table owner_turn enable row level security, force row level security;
revoke all on claim_turn, owner_turn from public;
grant update on claim_turn to carrel_control;

-- One row a tenant, which is locked while what its keys have used today is added up.
create table quota_turn (
  tenant_id uuid not null constraint quota_turn_tenant_id_fkey references tenant on delete cascade,
  constraint quota_turn_pkey primary key (tenant_id)) with (fillfactor = 50);

-- Deliveries to webhooks are claimed apart from all other work.
drop index job_ready_idx;
create index job_ready_idx on job (tenant_id, priority desc, run_at, id)
 where state = 'ready' and quota_key_id is null and kind <> 'send_webhook';
create index job_delivery_idx on job (tenant_id, run_at, id) where state = 'ready' and kind = 'send_webhook';
"""

CONTROL = """
create policy control on quota_turn to carrel_control using (true) with check (true);
grant select, insert, update on quota_turn to carrel_control;
"""

# As in 0025 and 0029, but for the lock: writers share the tenant's row, and the first count of the documents has it alone.
# A writer's job takes the same lock for its foreign key, so it costs a writer next to nothing.
COUNTING = """
create or replace function count_document() returns trigger
language plpgsql set search_path = pg_catalog, public, pg_temp set plan_cache_mode = auto as $f$
begin
  perform from tenant t where t.id = new.tenant_id for key share;
  update tenant_usage u
     set documents = u.documents + 1, stored_bytes = u.stored_bytes + new.bytes, chunks = u.chunks + new.chunk_count
   where u.tenant_id = new.tenant_id;
  if new.quota_key_id is not null then
    update key_usage u
       set documents = u.documents + 1, stored_bytes = u.stored_bytes + new.bytes, chunks = u.chunks + new.chunk_count
     where u.tenant_id = new.tenant_id and u.key_id = new.quota_key_id;
  end if;
  return null;
end $f$;

-- Replaced through another key, a document is the other's.
create or replace function recount_documents() returns trigger
language plpgsql set search_path = pg_catalog, public, pg_temp set plan_cache_mode = auto as $f$
declare grown record;
begin
  for grown in
    select tenant_id, quota_key_id, sum(documents) documents, sum(bytes) bytes, sum(chunks) chunks
      from (select tenant_id, quota_key_id, 1 documents, bytes, chunk_count::bigint chunks from current_rows
            union all
            select tenant_id, quota_key_id, -1, -bytes, -chunk_count::bigint from former_rows) both_rows
     group by tenant_id, quota_key_id having sum(documents) <> 0 or sum(bytes) <> 0 or sum(chunks) <> 0
     order by tenant_id, quota_key_id
  loop
    perform from tenant t where t.id = grown.tenant_id for key share;
    update tenant_usage u
       set documents = u.documents + grown.documents, stored_bytes = u.stored_bytes + grown.bytes,
           chunks = u.chunks + grown.chunks
     where u.tenant_id = grown.tenant_id;
    if grown.quota_key_id is not null then
      update key_usage u
         set documents = u.documents + grown.documents, stored_bytes = u.stored_bytes + grown.bytes,
             chunks = u.chunks + grown.chunks
       where u.tenant_id = grown.tenant_id and u.key_id = grown.quota_key_id;
    end if;
  end loop;
  return null;
end $f$;

create or replace function uncount_documents() returns trigger
language plpgsql set search_path = pg_catalog, public, pg_temp set plan_cache_mode = auto as $f$
declare gone record;
begin
  for gone in
    select tenant_id, quota_key_id, count(*) documents, sum(bytes) bytes, sum(chunk_count) chunks from former_rows
     group by tenant_id, quota_key_id order by tenant_id, quota_key_id
  loop
    perform from tenant t where t.id = gone.tenant_id for key share;
    update tenant_usage u
       set documents = u.documents - gone.documents, stored_bytes = u.stored_bytes - gone.bytes,
           chunks = u.chunks - gone.chunks
     where u.tenant_id = gone.tenant_id;
    if gone.quota_key_id is not null then
      update key_usage u
         set documents = u.documents - gone.documents, stored_bytes = u.stored_bytes - gone.bytes,
             chunks = u.chunks - gone.chunks
       where u.tenant_id = gone.tenant_id and u.key_id = gone.quota_key_id;
    end if;
  end loop;
  return null;
end $f$;

create or replace function count_kept_file() returns trigger
language plpgsql set search_path = pg_catalog, public, pg_temp set plan_cache_mode = auto as $f$
declare
  file openai_file := case tg_op when 'INSERT' then new else old end;
  more bigint := case tg_op when 'INSERT' then new.bytes else -old.bytes end;
begin
  perform from tenant t where t.id = file.tenant_id for key share;
  update tenant_usage u set stored_bytes = u.stored_bytes + more where u.tenant_id = file.tenant_id;
  if file.quota_key_id is not null then
    update key_usage u set stored_bytes = u.stored_bytes + more
     where u.tenant_id = file.tenant_id and u.key_id = file.quota_key_id;
  end if;
  return null;
end $f$;
"""

FUNCTIONS = r"""
grant create on schema public to carrel_control;
set role carrel_control;

create or replace function tell_daily_quota() returns trigger
language plpgsql security definer set search_path = pg_catalog, public, pg_temp set plan_cache_mode = auto as $f$
declare most numeric; used numeric; added numeric := new.embedding_tokens + new.query_tokens;
begin
  if not exists (select from webhook w where w.tenant_id = new.tenant_id and w.enabled
                    and 'quota.near' = any(w.events)) then return null; end if;
  select (t.quotas ->> 'embedding_tokens_per_day')::numeric into most from tenant t where t.id = new.tenant_id;
  if tg_op = 'UPDATE' then added := added - old.embedding_tokens - old.query_tokens; end if;
  if most is null or added <= 0 then return null; end if;
  insert into quota_turn as q (tenant_id) values (new.tenant_id)
    on conflict (tenant_id) do update set tenant_id = excluded.tenant_id;
  select sum(d.embedding_tokens + d.query_tokens) into used
    from usage_day d where d.tenant_id = new.tenant_id and d.day = new.day;
  perform tell_quota(new.tenant_id, 'embedding_tokens_per_day', most, used, used - added >= most * 0.8);
  return null;
end $f$;

-- The tenant with the fewest running jobs first, then the tenant that was served longest ago; priority counts within a
-- tenant alone. Periodic jobs are a lane of their own that runs one at a time, outside the system tenant's limit. Tenants
-- are found by a loose index scan, and so are the limited keys of each. The lock makes turns and limits exact: it
-- conflicts with itself alone. With p_idle only a tenant without a running job is served. Deliveries do not count.
create function claim_work(p_worker text, p_lease interval, p_tenant_concurrency int, p_idle boolean)
returns table(tenant_id uuid, id uuid, kind text, document_id uuid, payload jsonb, attempts int, max_attempts int,
              every interval)
language plpgsql security definer set search_path = pg_catalog, public, pg_temp set plan_cache_mode = auto
set enable_seqscan = off as $f$
#variable_conflict use_column
declare lane record; picked uuid;
begin
  lock table claim_turn in exclusive mode;
  for lane in
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
    ), lanes as (
      select coalesce(w.tenant_id, o.tenant_id) tenant_id, o.keys
        from waiting w full join open_keys o on o.tenant_id = w.tenant_id
    )
    select w.tenant_id, false periodic, coalesce(b.ordinary, 0) running, coalesce(l.last_claim, '-infinity') since,
           w.keys
      from lanes w left join busy b on b.tenant_id = w.tenant_id left join job_lane l on l.tenant_id = w.tenant_id
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
         where j.tenant_id = lane.tenant_id and j.state = 'ready' and j.quota_key_id is null
           and j.kind <> 'send_webhook' and j.run_at <= now() and (j.every is not null) = lane.periodic
         order by j.priority desc, j.run_at, j.id limit 1 for update skip locked) of_none
      union all
      select of_key.* from unnest(lane.keys) key cross join lateral (
        select j.id, j.priority, j.run_at from job j
         where j.tenant_id = lane.tenant_id and j.state = 'ready' and j.quota_key_id = key and j.run_at <= now()
         order by j.priority desc, j.run_at, j.id limit 1 for update skip locked) of_key
    ) first order by first.priority desc, first.run_at, first.id limit 1;
    exit when found;
  end loop;
  if picked is null then return; end if;
  if not lane.periodic then
    insert into job_lane (tenant_id, last_claim) values (lane.tenant_id, clock_timestamp())
      on conflict (tenant_id) do update set last_claim = excluded.last_claim;
  end if;
  return query update job j
     set state = 'running', attempts = j.attempts + 1, worker = p_worker, lease_until = clock_timestamp() + p_lease
   where j.tenant_id = lane.tenant_id and j.id = picked
   returning j.tenant_id, j.id, j.kind, j.document_id, j.payload, j.attempts, j.max_attempts, j.every;
end $f$;

-- One of the waiting deliveries: of the tenant with the fewest under way, then of the one whose delivery is due longest.
create function claim_delivery(p_worker text, p_lease interval, p_tenant_concurrency int)
returns table(tenant_id uuid, id uuid, kind text, document_id uuid, payload jsonb, attempts int, max_attempts int,
              every interval)
language plpgsql security definer set search_path = pg_catalog, public, pg_temp set plan_cache_mode = auto
set enable_seqscan = off as $f$
#variable_conflict use_column
declare lane record; picked uuid;
begin
  lock table claim_turn in exclusive mode;
  for lane in
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
     where j.tenant_id = lane.tenant_id and j.state = 'ready' and j.kind = 'send_webhook' and j.run_at <= now()
     order by j.run_at, j.id limit 1 for update skip locked;
    exit when found;
  end loop;
  if picked is null then return; end if;
  return query update job j
     set state = 'running', attempts = j.attempts + 1, worker = p_worker, lease_until = clock_timestamp() + p_lease
   where j.tenant_id = lane.tenant_id and j.id = picked
   returning j.tenant_id, j.id, j.kind, j.document_id, j.payload, j.attempts, j.max_attempts, j.every;
end $f$;

-- For workers of an earlier version, which have the same places for work and for deliveries.
create or replace function claim_job(p_worker text, p_lease interval, p_tenant_concurrency int)
returns table(tenant_id uuid, id uuid, kind text, document_id uuid, payload jsonb, attempts int, max_attempts int,
              every interval)
language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $f$
begin
  return query select * from claim_work(p_worker, p_lease, p_tenant_concurrency, false);
  if not found then
    return query select * from claim_delivery(p_worker, p_lease, p_tenant_concurrency);
  end if;
end $f$;

-- Whether a tenant without a running job has one that is due.
create function idle_tenant_waits() returns boolean
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
      left join job_lane l on l.tenant_id = w.tenant_id
     where w.tenant_id is not null and coalesce(l.max_running, 1) > 0
       and not exists (select from busy b where b.tenant_id = w.tenant_id)
       and (exists (select from job j where j.tenant_id = w.tenant_id and j.state = 'ready' and j.quota_key_id is null
                       and j.kind <> 'send_webhook' and j.run_at <= now() and j.every is null)
         or exists (select from job j where j.tenant_id = w.tenant_id and j.state = 'ready' and j.quota_key_id is not null
                       and j.run_at <= now())))
$f$;

revoke all on function claim_work, claim_delivery, idle_tenant_waits from public;
grant execute on function claim_work, claim_delivery, idle_tenant_waits to carrel_app;
reset role;
revoke create on schema public from carrel_control;
"""


def upgrade() -> None:
    run_script(TABLES)
    run_script(walls("quota_turn"))
    run_script(CONTROL)
    run_script(COUNTING)
    run_script(FUNCTIONS)
