"""The shared level: what the system tenant has is everybody's.

Revision ID: 0016
Revises: 0015

The system tenant's documents had the level of a tenant, and no other tenant's search asked for them: few rows, if any.
The documents come first, as ingestion locks them first. A process of before that still uploads to the system tenant
leaves what only the operator sees; uploaded again, it is shared.
"""

from app.db.migrate import run_script

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

# The keys are the UUIDv5 of the level's name, as app/documents/scopes.py makes them.
LEVEL = """
update document set scope_level = 'shared', scope_key = '31422a18-ac5a-5dd1-96d8-89a187afeff9'
 where tenant_id = system_tenant() and scope_key = '7685c63c-898a-5fdf-9657-6dbb2c1d163f';
update chunk_embedding set scope_key = '31422a18-ac5a-5dd1-96d8-89a187afeff9'
 where tenant_id = system_tenant() and scope_key = '7685c63c-898a-5fdf-9657-6dbb2c1d163f';
update chunk_lexical set scope_key = '31422a18-ac5a-5dd1-96d8-89a187afeff9'
 where tenant_id = system_tenant() and scope_key = '7685c63c-898a-5fdf-9657-6dbb2c1d163f';
"""

# As revision 0001 has it for the tables of before: the shared level is read by every tenant, and written by none.
READ = """
set local lock_timeout = '5s';
do $$ declare t text; begin
  foreach t in array array['document_page', 'document_media'] loop
    execute format('alter policy read on %I using (tenant_id = (select current_tenant())
                      or (tenant_id = system_tenant() and (select current_tenant()) is not null))', t);
  end loop;
end $$;
"""


def upgrade() -> None:
    run_script(LEVEL)
    run_script(READ)
