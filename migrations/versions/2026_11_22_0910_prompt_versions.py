"""Numbered versions of prompts.

Revision ID: 0026
Revises: 0025

An addition only: a prompt that is there already gets the number 1, which its owner need not say.
"""

from app.db.migrate import run_script, walls

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None

TABLE = """
set local lock_timeout = '5s';

create table prompt_version (
  tenant_id uuid not null constraint prompt_version_tenant_id_fkey references tenant on delete cascade,
  id uuid not null, kb_id uuid, agent_id text,
  prompt text not null constraint prompt_version_prompt_check check (prompt in ('rewrite', 'answer')),
  number integer not null, text text not null, key_id uuid, created_at timestamptz not null default now(),
  constraint prompt_version_pkey primary key (tenant_id, id),
  constraint prompt_version_owner_check check (num_nonnulls(kb_id, agent_id) = 1),
  constraint prompt_version_tenant_id_kb_id_fkey foreign key (tenant_id, kb_id)
    references knowledge_base (tenant_id, id) on delete cascade,
  constraint prompt_version_tenant_id_agent_id_fkey foreign key (tenant_id, agent_id)
    references agent_binding (tenant_id, agent_id) on delete cascade);
create unique index prompt_version_kb_idx on prompt_version (tenant_id, kb_id, prompt, number)
  where kb_id is not null;
create unique index prompt_version_agent_idx on prompt_version (tenant_id, agent_id, prompt, number)
  where agent_id is not null;

insert into prompt_version (tenant_id, id, kb_id, prompt, number, text)
select tenant_id, gen_random_uuid(), id, 'rewrite', 1, retrieval ->> 'rewrite_prompt'
  from knowledge_base where retrieval ->> 'rewrite_prompt' is not null and deleted_at is null;
"""


def upgrade() -> None:
    run_script(TABLE)
    run_script(walls("prompt_version"))
