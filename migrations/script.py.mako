"""${message}.

Revision ID: ${up_revision}
Revises: ${down_revision | comma,n}

One concern. A new table brings its policies, its grants and its owner policy here, and nothing waits long for a lock.
CONTRIBUTING.md says how a function or a trigger is changed.
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
