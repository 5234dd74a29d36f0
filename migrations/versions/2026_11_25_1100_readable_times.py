"""Clamp stored times to the years 2 to 9998: the driver cannot give the first and the last time back as they were.

Revision ID: 0049
Revises: 0048

No table is changed, and only rows with such a time are written. A process of an earlier version may still store one: it
can be read, and is clamped by nothing.
"""

from app.db.migrate import run_script

revision = "0049"
down_revision = "0048"
branch_labels = None
depends_on = None

# `greatest` and `least` ignore null.
CLAMP = """
update document
   set created_at = least(greatest(created_at, '0002-01-01 00:00:00+00'), '9998-12-31 23:59:59.999999+00'),
       source_created_at = case when source_created_at is not null then
         least(greatest(source_created_at, '0002-01-01 00:00:00+00'), '9998-12-31 23:59:59.999999+00') end,
       expires_at = case when expires_at is not null then
         least(greatest(expires_at, '0002-01-01 00:00:00+00'), '9998-12-31 23:59:59.999999+00') end
 where created_at < '0002-01-01 00:00:00+00' or created_at > '9998-12-31 23:59:59.999999+00'
    or source_created_at < '0002-01-01 00:00:00+00' or source_created_at > '9998-12-31 23:59:59.999999+00'
    or expires_at < '0002-01-01 00:00:00+00' or expires_at > '9998-12-31 23:59:59.999999+00';

update api_key
   set expires_at = least(greatest(expires_at, '0002-01-01 00:00:00+00'), '9998-12-31 23:59:59.999999+00')
 where expires_at < '0002-01-01 00:00:00+00' or expires_at > '9998-12-31 23:59:59.999999+00';
"""


def upgrade() -> None:
    run_script(CLAMP)
