"""Routing by centroids.

Revision ID: 0027
Revises: 0026
"""

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Nothing yet."""
