"""The shared level.

Revision ID: 0016
Revises: 0015
"""

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    pass
