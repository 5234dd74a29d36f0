"""Make the walk in the entity graph faster.

Revision ID: 0010_faster_graph_walk
Revises: 0009_source_offsets

No row is written. Processes of the version before go on calling ``graph_walk``, whose arguments stay the same.
"""

from app.db.migrate import run_script
from app.db.sql_files import build_function_script

revision = "0010_faster_graph_walk"
down_revision = "0009_source_offsets"
branch_labels = None
depends_on = None

FUNCTIONS = ("carrel_search/graph_chunk_masses", "carrel_search/graph_entity_masses", "carrel_search/graph_walk")

FORMER = """
drop function graph_chunk_masses(
  uuid, uuid, int4[], float8[], uuid[], jsonb, jsonpath, int4[], int4[], uuid[], jsonb
);
"""


def upgrade() -> None:
    run_script(FORMER)
    run_script(build_function_script(FUNCTIONS, revision))
