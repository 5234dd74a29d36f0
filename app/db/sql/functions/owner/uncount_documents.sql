-- Subtract deleted documents from the counters of their tenants and API keys.
create or replace function uncount_documents() returns trigger
language plpgsql set search_path = pg_catalog, public, pg_temp set plan_cache_mode = auto as $f$
declare deleted record;
begin
  for deleted in
    select tenant_id, quota_key_id, count(*) documents, sum(bytes) bytes, sum(chunk_count) chunks from former_rows
     group by tenant_id, quota_key_id order by tenant_id, quota_key_id
  loop
    perform from tenant t where t.id = deleted.tenant_id for key share;
    update tenant_usage u
       set documents = u.documents - deleted.documents, stored_bytes = u.stored_bytes - deleted.bytes,
           chunks = u.chunks - deleted.chunks
     where u.tenant_id = deleted.tenant_id;
    if deleted.quota_key_id is not null then
      update key_usage u
         set documents = u.documents - deleted.documents, stored_bytes = u.stored_bytes - deleted.bytes,
             chunks = u.chunks - deleted.chunks
       where u.tenant_id = deleted.tenant_id and u.key_id = deleted.quota_key_id;
    end if;
  end loop;
  return null;
end $f$;

revoke all on function uncount_documents from public;
