-- Add a new stored file's bytes to the counters of its tenant and its API key, or subtract those of a deleted one.
create or replace function count_stored_file() returns trigger
language plpgsql set search_path = pg_catalog, public, pg_temp set plan_cache_mode = auto as $f$
declare
  file stored_file := case tg_op when 'INSERT' then new else old end;
  added_bytes bigint := case tg_op when 'INSERT' then new.bytes else -old.bytes end;
begin
  perform from tenant t where t.id = file.tenant_id for key share;
  update tenant_usage u set stored_bytes = u.stored_bytes + added_bytes where u.tenant_id = file.tenant_id;
  if file.quota_key_id is not null then
    update key_usage u set stored_bytes = u.stored_bytes + added_bytes
     where u.tenant_id = file.tenant_id and u.key_id = file.quota_key_id;
  end if;
  return null;
end $f$;

revoke all on function count_stored_file from public;
