-- Add a new document to the counters of its tenant and of its API key.
-- The lock on the tenant's row is shared by writers; the first count of a tenant's documents takes it exclusively.
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

revoke all on function count_document from public;
