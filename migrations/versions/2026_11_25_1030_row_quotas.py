"""Limit the number of rows that a tenant can create, for each kind of row.

Revision ID: 0046
Revises: 0045

Additions only. A process of an earlier version is refused a row over a quota as by any other error of the database.
"""

from app.db.migrate import run_script, walls

revision = "0046"
down_revision = "0045"
branch_labels = None
depends_on = None

TABLES = """
set local lock_timeout = '5s';

-- How many more rows a tenant can add before they are counted again, and the quota that the number was computed from.
create table row_allowance (
  tenant_id uuid not null constraint row_allowance_tenant_id_fkey references tenant on delete cascade,
  quota text not null, remaining bigint not null default 0, maximum bigint not null default 0,
  constraint row_allowance_pkey primary key (tenant_id, quota)) with (fillfactor = 50);
"""

# Rows are not counted as they come and go: deletes take no lock, so that no delete can wait for an insert that waits for
# it. An insert holds the tenant's allowance for its quota until the transaction ends. It can use half of what a count has
# found free before the next count, so that a count is rare, and exact: rows that others delete only make more room.
FUNCTIONS = """
create function default_row_quota(p_quota text) returns bigint
language sql immutable parallel safe set search_path = pg_catalog, public, pg_temp as $f$
  select case p_quota
    when 'knowledge_bases' then 1000
    when 'api_keys' then 1000
    when 'agents' then 10000
    when 'prompt_versions' then 10000
    when 'webhooks' then 50
    when 'kept_answers' then 100000
    when 'publications' then 100
    when 'files' then 100000
    when 'file_batches' then 100000
    when 'batch_files' then 1000000
    when 'chats' then 1000000
  end::bigint
$f$;
revoke all on function default_row_quota from public;
grant execute on function default_row_quota to carrel_app;
"""

# One for each table, so that no statement is put together from names.
CHECK = """
create function check_{table}_quota() returns trigger
language plpgsql set search_path = pg_catalog, public, pg_temp set plan_cache_mode = auto as $f$
declare
  added record;
  allowance record;
  allowed bigint;
  present bigint;
begin
  for added in select tenant_id, count(*) as rows from new_rows group by tenant_id loop
    select coalesce((t.quotas ->> '{quota}')::bigint, default_row_quota('{quota}')) into allowed
      from tenant t where t.id = added.tenant_id;
    insert into row_allowance as a (tenant_id, quota, remaining) values (added.tenant_id, '{quota}', -added.rows)
    on conflict (tenant_id, quota) do update set remaining = a.remaining - added.rows
    returning remaining, maximum into allowance;
    continue when allowance.remaining >= 0 and allowance.maximum = allowed;
    select count(*) into present
      from (select from {table} where tenant_id = added.tenant_id and {condition} limit allowed + 1) n;
    if present > allowed then
      raise exception using errcode = 'U0002', message = '{quota} ' || allowed;
    end if;
    update row_allowance a set remaining = (allowed - present) / 2, maximum = allowed
     where a.tenant_id = added.tenant_id and a.quota = '{quota}';
  end loop;
  return null;
end $f$;
revoke all on function check_{table}_quota from public;
create trigger {table}_quota after insert on {table} referencing new table as new_rows
  for each statement execute function check_{table}_quota('{quota}');
"""

LIMITED = {
    "knowledge_base": ("knowledge_bases", "true"),
    "api_key": ("api_keys", "revoked_at is null and (expires_at is null or expires_at > now())"),
    "agent_binding": ("agents", "true"),
    "prompt_version": ("prompt_versions", "true"),
    "webhook": ("webhooks", "true"),
    "idempotency_key": ("kept_answers", "true"),
    "publication": ("publications", "true"),
    "openai_file": ("files", "true"),
    "openai_file_batch": ("file_batches", "true"),
    "openai_batch_file": ("batch_files", "true"),
    "chat": ("chats", "true"),
}


def upgrade() -> None:
    run_script(TABLES)
    run_script(walls("row_allowance"))
    run_script(FUNCTIONS)
    for table, (quota, condition) in LIMITED.items():
        run_script(CHECK.format(table=table, quota=quota, condition=condition))
