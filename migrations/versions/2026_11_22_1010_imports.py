"""Knowledge bases that are being imported.

Revision ID: 0032
Revises: 0031
"""

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Nothing yet."""
