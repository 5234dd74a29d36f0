-- Update the counters of tenants and API keys for changed documents. If another API key replaced a document, its
-- counters move to that key.
create or replace function recount_documents() returns trigger
language plpgsql set search_path = pg_catalog, public, pg_temp set plan_cache_mode = auto as $f$
declare changed record;
begin
  for changed in
    select tenant_id, quota_key_id, sum(documents) documents, sum(bytes) bytes, sum(chunks) chunks
      from (select tenant_id, quota_key_id, 1 documents, bytes, chunk_count::bigint chunks from current_rows
            union all
            select tenant_id, quota_key_id, -1, -bytes, -chunk_count::bigint from former_rows) both_rows
     group by tenant_id, quota_key_id having sum(documents) <> 0 or sum(bytes) <> 0 or sum(chunks) <> 0
     order by tenant_id, quota_key_id
  loop
    perform from tenant t where t.id = changed.tenant_id for key share;
    update tenant_usage u
       set documents = u.documents + changed.documents, stored_bytes = u.stored_bytes + changed.bytes,
           chunks = u.chunks + changed.chunks
     where u.tenant_id = changed.tenant_id;
    if changed.quota_key_id is not null then
      update key_usage u
         set documents = u.documents + changed.documents, stored_bytes = u.stored_bytes + changed.bytes,
             chunks = u.chunks + changed.chunks
       where u.tenant_id = changed.tenant_id and u.key_id = changed.quota_key_id;
    end if;
  end loop;
  return null;
end $f$;

revoke all on function recount_documents from public;
