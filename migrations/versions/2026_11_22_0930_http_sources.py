"""Knowledge bases that are answered by an HTTP endpoint.

Revision ID: 0028
Revises: 0027
"""

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Nothing yet."""
