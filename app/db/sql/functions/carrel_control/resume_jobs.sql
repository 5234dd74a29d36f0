-- Make the jobs of all tenants that were postponed with the error p_code due now, and return their number.
create or replace function resume_jobs(p_code text) returns int
language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $f$
declare resumed int;
begin
  update job j set run_at = now()
   where j.state = 'ready' and j.run_at > now() and j.error ->> 'code' = p_code;
  get diagnostics resumed = row_count;
  if resumed > 0 then perform pg_notify('carrel_job', ''); end if;
  return resumed;
end $f$;

revoke all on function resume_jobs from public;
grant execute on function resume_jobs to carrel_app;
