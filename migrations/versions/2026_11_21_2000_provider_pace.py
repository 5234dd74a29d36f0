"""Whose turn it is to call a model: limits a minute that all processes share, and pauses that a provider asks for.

Revision ID: 0006
Revises: 0005

The rows are the system tenant's, and reached through two functions alone: a call is made for every tenant. Unlogged,
for every call writes one: a crash forgets what was used within the last seconds, and no more.
"""

from app.db.migrate import run_script, walls

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

TABLE = """
set local lock_timeout = '5s';

create unlogged table provider_pace (
  tenant_id uuid not null constraint provider_pace_tenant_id_fkey references tenant on delete cascade,
  provider uuid not null, requests double precision not null default 0, tokens double precision not null default 0,
  filled_at timestamptz not null default now(), paused_until timestamptz,
  constraint provider_pace_pkey primary key (tenant_id, provider));
"""
CONTROL = """
create policy control on provider_pace to carrel_control using (true) with check (true);
grant select, insert, update on provider_pace to carrel_control;
"""

FUNCTIONS = r"""
grant create on schema public to carrel_control;
set role carrel_control;

-- Two buckets, of requests and of tokens, that fill up to a sixth of a minute's limit. Bulk work takes its turn where
-- one is left, and may then go below zero by what it takes; whoever has someone waiting may go half a minute further
-- down, so that a query never waits for bulk work. A limit of 0 is none: greatest() and least() pass over its nulls.
-- Returns the milliseconds after which to ask again; 0: the turn is taken. Less than no tokens gives some back.
create function claim_pace(p_provider uuid, p_requests_per_minute int, p_tokens_per_minute int, p_tokens int,
                           p_interactive boolean)
returns int
language plpgsql strict security definer set search_path = pg_catalog, public, pg_temp as $f$
declare
  moment timestamptz := clock_timestamp();
  most_requests int := nullif(p_requests_per_minute, 0);
  most_tokens int := nullif(p_tokens_per_minute, 0);
  reserve float8 := case when p_interactive then 0.5 else 0 end;
  pace provider_pace;
  wait float8;
begin
  insert into provider_pace as p (tenant_id, provider, requests, tokens, filled_at)
  values (system_tenant(), p_provider, greatest(1, most_requests / 6.0), greatest(1, most_tokens / 6.0), moment)
  on conflict (tenant_id, provider) do update
     set requests = least(excluded.requests, p.requests + most_requests / 60.0
                            * greatest(0, extract(epoch from moment - p.filled_at))),
         tokens = least(excluded.tokens, p.tokens + most_tokens / 60.0
                          * greatest(0, extract(epoch from moment - p.filled_at))),
         filled_at = greatest(moment, p.filled_at)
  returning p.* into pace;
  wait := greatest(0, 1000 * extract(epoch from pace.paused_until - moment),
                   60000 * (1 - pace.requests - reserve * most_requests) / most_requests,
                   60000 * (1 - pace.tokens - reserve * most_tokens) / most_tokens);
  if wait > 0 then return least(ceil(wait), 3600000); end if;
  update provider_pace p set requests = p.requests - 1, tokens = p.tokens - p_tokens
   where p.tenant_id = system_tenant() and p.provider = p_provider;
  return 0;
end $f$;

-- Ten minutes at most: then one call asks again, whatever the provider said.
create function pause_provider(p_provider uuid, p_milliseconds int) returns void
language sql strict security definer set search_path = pg_catalog, public, pg_temp as $f$
  insert into provider_pace as p (tenant_id, provider, paused_until)
  values (system_tenant(), p_provider, clock_timestamp() + least(p_milliseconds, 600000) * interval '1 ms')
  on conflict (tenant_id, provider) do update set paused_until = greatest(p.paused_until, excluded.paused_until)
$f$;

revoke all on function claim_pace, pause_provider from public;
grant execute on function claim_pace, pause_provider to carrel_app;
reset role;
revoke create on schema public from carrel_control;
"""


def upgrade() -> None:
    run_script(TABLE)
    run_script(walls("provider_pace"))
    run_script(CONTROL)
    run_script(FUNCTIONS)
