"""Agent bindings: which knowledge bases and limits an agent gets.

Revision ID: 0024
Revises: 0023

An addition only. A process of before that deletes a knowledge base leaves its id in a binding, where nobody finds
anything by it.
"""

from app.db.migrate import run_script, walls

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None

# The agent's own id is the platform's word; `id` is ours, by which the audit names a binding.
TABLE = """
set local lock_timeout = '5s';

create table agent_binding (
  tenant_id uuid not null constraint agent_binding_tenant_id_fkey references tenant on delete cascade,
  agent_id text not null, id uuid not null,
  knowledge_base_ids uuid[] not null default '{}', settings jsonb not null default '{}',
  created_at timestamptz not null default now(), updated_at timestamptz not null default now(),
  constraint agent_binding_pkey primary key (tenant_id, agent_id));
"""


def upgrade() -> None:
    run_script(TABLE)
    run_script(walls("agent_binding"))
