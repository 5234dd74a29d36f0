"""Quotas of a key for what is stored, and for how much of it is ingested at once.

Revision ID: 0025
Revises: 0024

Additions only; find_key tells more, and a process of before takes no notice of it. What such a process is given by a
limited key is counted for its tenant alone. Nothing is rewritten: the columns are null, for only what a limited key
brings has a key. The indexes of the queue are made anew, which holds it up for as long as reading what waits in it takes.
"""

from app.db.migrate import run_script, walls

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None

# quota_key_id is the first of the keys that rotation has made after each other: they share what they may use. The
# row of that key stays, whatever becomes of it. Documents are locked before jobs, as by everybody.
TABLES = """
set local lock_timeout = '5s';

alter table document add quota_key_id uuid;
alter table api_key add quota_key_id uuid;
alter table job add quota_key_id uuid;

create table key_usage (
  tenant_id uuid not null, key_id uuid not null,
  documents bigint not null default 0, stored_bytes bigint not null default 0, chunks bigint not null default 0,
  constraint key_usage_pkey primary key (tenant_id, key_id),
  constraint key_usage_tenant_id_key_id_fkey foreign key (tenant_id, key_id) references api_key on delete cascade)
  with (fillfactor = 50);

-- Jobs of a key that has enough running are passed over without being read, however many they are.
drop index job_ready_idx;
create index job_ready_idx on job (tenant_id, priority desc, run_at, id)
 where state = 'ready' and quota_key_id is null;
create index job_key_idx on job (tenant_id, quota_key_id, priority desc, run_at, id)
 where state = 'ready' and quota_key_id is not null;
"""

# As in 0020, where they are explained. A key's counting begins with the key, so nobody has to wait for that; its rows
# come after the tenant's and in one order, so that two who change many documents do not wait for each other.
COUNTING = """
create or replace function count_document() returns trigger
language plpgsql set search_path = pg_catalog, public, pg_temp set plan_cache_mode = auto as $f$
begin
  perform pg_advisory_xact_lock_shared(7302, hashtext(new.tenant_id::text));
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
    perform pg_advisory_xact_lock_shared(7302, hashtext(grown.tenant_id::text));
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
    perform pg_advisory_xact_lock_shared(7302, hashtext(gone.tenant_id::text));
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
"""

FUNCTIONS = r"""
grant create on schema public to carrel_control;
set role carrel_control;

drop function find_key(bytea);
create function find_key(p_key_hash bytea)
returns table(tenant_id uuid, tenant_name text, key_id uuid, key_name text, role text, knowledge_base_ids uuid[],
              user_id text, expires_at timestamptz, quotas jsonb, key_quotas jsonb, quota_key_id uuid)
language sql stable security definer rows 1 set search_path = pg_catalog, public, pg_temp as $f$
  select k.tenant_id, t.name, k.id, k.name, k.role, k.knowledge_base_ids, k.user_id, k.expires_at, t.quotas, k.quotas,
         k.quota_key_id
    from api_key k join tenant t on t.id = k.tenant_id
   where k.key_hash = p_key_hash and k.revoked_at is null and (k.expires_at is null or k.expires_at > now())
     and t.deleted_at is null
$f$;

-- As in 0005. A tenant's jobs that come by limited keys are found by a loose index scan of their own, and of those each
-- key's first; a key that has enough running is left out. Where there are none, that is one look at an empty index.
-- The plan is made once and kept, which is most of what a claim cost; it must not be one for a table that was empty.
create or replace function claim_job(p_worker text, p_lease interval, p_tenant_concurrency int)
returns table(tenant_id uuid, id uuid, kind text, document_id uuid, payload jsonb, attempts int, max_attempts int,
              every interval)
language plpgsql security definer set search_path = pg_catalog, public, pg_temp set plan_cache_mode = auto
set enable_seqscan = off as $f$
#variable_conflict use_column
declare lane record; picked uuid;
begin
  perform pg_advisory_xact_lock(7301);
  for lane in
    with recursive waiting(tenant_id) as (
      (select j.tenant_id from job j where j.state = 'ready' and j.quota_key_id is null order by j.tenant_id limit 1)
      union all
      select (select j.tenant_id from job j
               where j.state = 'ready' and j.quota_key_id is null and j.tenant_id > w.tenant_id
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
        from job r where r.state = 'running' group by r.tenant_id
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
         where j.tenant_id = lane.tenant_id and j.state = 'ready' and j.quota_key_id is null and j.run_at <= now()
           and (j.every is not null) = lane.periodic
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

revoke all on function find_key, claim_job from public;
grant execute on function find_key, claim_job to carrel_app;
reset role;
revoke create on schema public from carrel_control;
"""


def upgrade() -> None:
    run_script(TABLES)
    run_script(walls("key_usage"))
    run_script(COUNTING)
    run_script(FUNCTIONS)
