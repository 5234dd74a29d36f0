"""Deletion with proof: receipts that outlive the tenant, knowledge bases that go in batches, answers by what they name.

Revision ID: 0022
Revises: 0021

Additions only, and a foreign key less: a receipt stays when its tenant is gone. A process of before that deletes a
knowledge base does it in one transaction still. Answers that were kept before this go within their day.
"""

from app.db.migrate import run_script, walls

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

TABLES = """
set local lock_timeout = '5s';

alter table knowledge_base add deleted_at timestamptz;   -- out of every reading; a job removes what is in it

alter table deletion
  drop constraint deletion_tenant_id_fkey,
  alter kb_id drop not null,
  add kind text not null default 'documents'
    constraint deletion_kind_check check (kind in ('document', 'documents', 'knowledge_base', 'tenant')),
  add object_id uuid,            -- null in receipts of before
  add bytes bigint not null default 0,
  add remaining jsonb;           -- rows left by table, and objects; counted when all was removed
create index deletion_requested_at_idx on deletion (requested_at);
create index deletion_unfinished_idx on deletion (requested_at) where finished_at is null;

-- Whom and what the answers are about that are kept for retries: they go with it.
create table idempotency_subject (
  tenant_id uuid not null, subject_id uuid not null, api_key_id uuid not null, route text not null, key text not null,
  constraint idempotency_subject_pkey primary key (tenant_id, subject_id, api_key_id, route, key),
  constraint idempotency_subject_tenant_id_api_key_id_route_key_fkey foreign key (tenant_id, api_key_id, route, key)
    references idempotency_key on delete cascade);
create index idempotency_subject_answer_idx on idempotency_subject (tenant_id, api_key_id, route, key);

create policy control on deletion for select to carrel_control using (true);
create policy expire on deletion for delete to carrel_control using (true);
grant select (tenant_id, id, requested_at, finished_at), delete on deletion to carrel_control;
create policy control on knowledge_base for select to carrel_control using (true);
grant select (tenant_id, id, deleted_at) on knowledge_base to carrel_control;
"""

FUNCTIONS = r"""
grant create on schema public to carrel_control;
set role carrel_control;

-- Deletions that are not over long after they were asked for.
create function unfinished_deletions(p_age interval, p_limit int) returns table(tenant_id uuid, deletion_id uuid)
language sql stable security definer set search_path = pg_catalog, public, pg_temp as $f$
  select d.tenant_id, d.id from deletion d
   where d.finished_at is null and d.requested_at < now() - p_age
   order by d.requested_at limit least(p_limit, 10000)
$f$;

-- Receipts of tenants that are gone too. Whoever calls it, and whatever for: the last seven days stay.
create function remove_old_deletions(p_keep interval, p_limit int) returns int
language sql security definer set search_path = pg_catalog, public, pg_temp as $f$
  with old as (
    select d.tenant_id, d.id from deletion d
     where d.finished_at is not null and d.requested_at < now() - greatest(p_keep, interval '7 days')
     limit least(p_limit, 10000)
  ), gone as (
    delete from deletion d using old o where (d.tenant_id, d.id) = (o.tenant_id, o.id) returning 1
  ) select count(*)::int from gone
$f$;

-- As revision 0015 has it, but for those of deleted knowledge bases, which a job of their own removes.
create or replace function expired_indexes(p_undo interval, p_limit int) returns table(tenant_id uuid, index_id uuid)
language sql stable security definer set search_path = pg_catalog, public, pg_temp as $f$
  select i.tenant_id, i.id from search_index i
   where i.state = 'retired' and (i.retired_at is null or i.retired_at <= now() - greatest(p_undo, interval '1 min')
      or (i.retired_at <= now() - interval '1 min'
          and exists (select from search_index n where n.tenant_id = i.tenant_id and n.kb_id = i.kb_id
                         and n.state = 'retired' and n.retired_at > i.retired_at)))
     and not exists (select from knowledge_base k
                      where k.tenant_id = i.tenant_id and k.id = i.kb_id and k.deleted_at is not null)
   limit least(p_limit, 10000)
$f$;

revoke all on function unfinished_deletions, remove_old_deletions from public;
grant execute on function unfinished_deletions, remove_old_deletions to carrel_app;
reset role;
revoke create on schema public from carrel_control;
"""


def upgrade() -> None:
    run_script(TABLES)
    run_script(walls("idempotency_subject"))
    run_script(FUNCTIONS)
