"""Add the graph settings of knowledge bases, and the entities and relations that came with chunks.

Revision ID: 0007_graph_settings
Revises: 0006_source_kinds

The default of the new column is constant, so no row is written again. The statements wait at most five seconds for a
table.
"""

from app.db.migrate import run_script

revision = "0007_graph_settings"
down_revision = "0006_source_kinds"
branch_labels = None
depends_on = None

CHANGE = """
set local lock_timeout = '5s';
alter table knowledge_base
  add column graph jsonb not null default '{"enabled": true, "metadata_keys": [], "extractors": []}';
-- Entities and relations that came with the chunk: {"entities": [...], "relations": [...]}. A reindex reads them.
alter table chunk add column provided_graph jsonb;
-- The keys whose names may have lost their last chunk. A deletion merges their rows before its receipt says 0.
create index entity_negative on entity (tenant_id, index_id, key) where chunks < 0;
"""


def upgrade() -> None:
    run_script(CHANGE)
