-- Create a delivery and its job for each enabled webhook of this event, in the transaction of the change. The ids are
-- UUIDv7: a version 4 UUID with the milliseconds in front. The worker decides how often a job is tried.
create or replace function notify_webhooks(p_tenant uuid, p_event text, p_data jsonb) returns void
language plpgsql set search_path = pg_catalog, public, pg_temp set plan_cache_mode = auto as $f$
begin
  with targets as (
    select w.id as webhook_id, encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid()) placing
             substring(int8send(floor(extract(epoch from clock_timestamp()) * 1000)::bigint) from 3) from 1 for 6),
             52, 1), 53, 1), 'hex')::uuid as id
      from webhook w join tenant t on t.id = w.tenant_id and t.deleted_at is null
     where w.tenant_id = p_tenant and w.enabled and p_event = any(w.events)
  ), added as (
    insert into webhook_delivery (tenant_id, id, webhook_id, event, data)
    select p_tenant, o.id, o.webhook_id, p_event, p_data from targets o
  )
  insert into job (tenant_id, id, kind, payload, priority, max_attempts)
  select p_tenant, o.id, 'send_webhook', jsonb_build_object('delivery', o.id), 10, 100 from targets o;
  if found then perform pg_notify('carrel_job', ''); end if;
end $f$;

revoke all on function notify_webhooks from public;
