-- Notify API processes that a document's status, progress or version has changed, or that it was deleted.
create or replace function notify_document() returns trigger language plpgsql
set search_path = pg_catalog, public, pg_temp as $f$
begin
  perform pg_notify('carrel_document', notification_name(old.tenant_id || '/' || old.id)
                    || '/' || case when tg_op = 'DELETE' then 'deleted' else new.status end);
  return null;
end $f$;

revoke all on function notify_document from public;
