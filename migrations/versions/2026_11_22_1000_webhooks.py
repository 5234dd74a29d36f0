"""Webhooks.

Revision ID: 0031
Revises: 0030
"""

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Nothing yet."""
