"""Lines of keys: those that rotation has made one after the other share what hangs at a key.

Revision ID: 0032
Revises: 0031

No table is changed. Only rows of keys that were rotated are written, and of files that these have brought. While there
are processes of before, a narrowed key that was rotated may miss its files there, and those that it keeps there here.
"""

from app.db.migrate import run_script

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None

# quota_key_id is the first key of the line, as 0025 has it for keys whose documents are counted. It stays null for a
# key that is the first and was never counted: written for all, every process would look up every tenant's keys anew.
LINES = """
set local lock_timeout = '5s';

with recursive line as (
  select k.tenant_id, k.replaced_by id, coalesce(k.quota_key_id, k.id) first_id from api_key k
   where k.replaced_by is not null
     and not exists (select from api_key p where p.tenant_id = k.tenant_id and p.replaced_by = k.id)
  union all
  select k.tenant_id, k.replaced_by, coalesce(k.quota_key_id, l.first_id)
    from line l join api_key k on k.tenant_id = l.tenant_id and k.id = l.id
   where k.replaced_by is not null
)
update api_key k set quota_key_id = l.first_id from line l
 where k.tenant_id = l.tenant_id and k.id = l.id and k.quota_key_id is null;

update openai_file f set key_id = k.quota_key_id from api_key k
 where k.tenant_id = f.tenant_id and k.id = f.key_id and k.quota_key_id <> k.id;
update openai_file_batch b set key_id = k.quota_key_id from api_key k
 where k.tenant_id = b.tenant_id and k.id = b.key_id and k.quota_key_id <> k.id;
"""


def upgrade() -> None:
    run_script(LINES)
