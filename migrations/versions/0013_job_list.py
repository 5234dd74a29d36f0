"""Add the functions that list jobs, retry dead ones and count tenants.

Revision ID: 0013_job_list
Revises: 0012_parse_results

No row is written, and no table is locked.
"""

from app.db.migrate import run_script
from app.db.sql_files import build_function_script

revision = "0013_job_list"
down_revision = "0012_parse_results"
branch_labels = None
depends_on = None

FUNCTIONS = ("carrel_control/count_tenants", "carrel_control/list_jobs", "carrel_control/retry_jobs")


def upgrade() -> None:
    run_script(build_function_script(FUNCTIONS, revision))
