"""The language of a document.

Revision ID: 0017
Revises: 0016
"""

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    pass
