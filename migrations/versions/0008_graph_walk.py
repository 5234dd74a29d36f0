"""Add the functions that walk in the entity graph.

Revision ID: 0008_graph_walk
Revises: 0007_graph_settings

No row is written. The statements wait at most five seconds for the table ``chunk``.
"""

from app.db.migrate import run_script
from app.db.sql_files import build_function_script

revision = "0008_graph_walk"
down_revision = "0007_graph_settings"
branch_labels = None
depends_on = None

FUNCTIONS = (
    "carrel_search/graph_chunk_masses",
    "carrel_search/graph_entity_chunks",
    "carrel_search/graph_entity_masses",
    "carrel_search/graph_walk",
)

# The corrections of a document's entities need the document of a chunk.
CHANGE = """
set local lock_timeout = '5s';
create policy search on chunk for select to carrel_search using (true);
grant select (tenant_id, index_id, id, document_id) on chunk to carrel_search;
"""


def upgrade() -> None:
    run_script(CHANGE)
    run_script(build_function_script(FUNCTIONS, revision))
