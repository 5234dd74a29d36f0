"""${message}.

Revision ID: ${up_revision}
Revises: ${down_revision | comma,n}

A migration changes one thing. It gives a new table its policies, its grants and its owner policy. No statement waits
long for a lock. CONTRIBUTING.md describes how to change a function or a trigger.
"""

from app.db.migrate import run_script

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = ${repr(branch_labels)}
depends_on = ${repr(depends_on)}

CHANGE = """
set local lock_timeout = '5s';
"""


def upgrade() -> None:
    run_script(CHANGE)
