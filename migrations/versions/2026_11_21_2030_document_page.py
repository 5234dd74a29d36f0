"""Where the lines of a PDF stand on its pages.

Revision ID: 0007
Revises: 0006

Addition only: documents ingested before have no rows, and get theirs when they are ingested again.
"""

from app.db.migrate import run_script, walls

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

TABLE = """
set local lock_timeout = '5s';

create table document_page (  -- ranges of the stored text; boxes: x0, y0, x1, y1 of each line, in tenths of a point
  tenant_id uuid not null, document_id uuid not null, page int not null, width real not null, height real not null,
  starts int4[] not null, ends int4[] not null, boxes int4[] not null,
  constraint document_page_pkey primary key (tenant_id, document_id, page),
  constraint document_page_tenant_id_document_id_fkey foreign key (tenant_id, document_id)
    references document on delete cascade);
"""


def upgrade() -> None:
    run_script(TABLE)
    run_script(walls("document_page"))
