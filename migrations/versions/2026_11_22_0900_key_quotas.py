"""Quotas of a key for what is stored.

Revision ID: 0025
Revises: 0024
"""

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Nothing yet."""
