-- Refuse new rows of evaluation with error U0002 if a tenant would have more than its quota `evaluations` allows.
-- row_allowance holds how many rows can be added before the next count. A count grants half of the free rows, so counts
-- are rare. Deletes take no lock and only make more room. All quota checks are alike; one function for each table
-- needs no SQL put together from names.
create or replace function check_evaluation_quota() returns trigger
language plpgsql set search_path = pg_catalog, public, pg_temp set plan_cache_mode = auto as $f$
declare
  added record;
  allowance record;
  allowed bigint;
  present bigint;
begin
  for added in select tenant_id, count(*) as rows from new_rows group by tenant_id loop
    select coalesce((t.quotas ->> 'evaluations')::bigint, default_row_quota('evaluations')) into allowed
      from tenant t where t.id = added.tenant_id;
    insert into row_allowance as a (tenant_id, quota, remaining) values (added.tenant_id, 'evaluations', -added.rows)
    on conflict (tenant_id, quota) do update set remaining = a.remaining - added.rows
    returning remaining, maximum into allowance;
    continue when allowance.remaining >= 0 and allowance.maximum = allowed;
    select count(*) into present
      from (select from evaluation where tenant_id = added.tenant_id and true limit allowed + 1) n;
    if present > allowed then
      raise exception using errcode = 'U0002', message = 'evaluations ' || allowed;
    end if;
    update row_allowance a set remaining = (allowed - present) / 2, maximum = allowed
     where a.tenant_id = added.tenant_id and a.quota = 'evaluations';
  end loop;
  return null;
end $f$;

revoke all on function check_evaluation_quota from public;
