"""Publications: views of knowledge bases that an agent platform reads itself.

Revision ID: 0030
Revises: 0029

An addition only. Each view is made by a job, as the tables' owner, in a schema of its own, and belongs to
carrel_publication: a role that cannot log in and that row-level security lets see what the caller's own publication
shows, and nothing where the caller (session_user) has none. So the policies are the wall, not the views' conditions:
whatever is pushed below those (a view that were a security barrier would find no vector index), the policies hold
before it.
"""

from app.db.migrate import run_script, walls

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None

# No cascade from knowledge_base: its row stays until the view, the schema and the roles of its publication are gone.
TABLE = """
set local lock_timeout = '5s';

create table publication (
  tenant_id uuid not null constraint publication_tenant_id_fkey references tenant on delete cascade,
  id uuid not null, kb_id uuid not null, collection text not null, content_key text not null,
  verifier text not null,   -- of the password, as Postgres keeps it
  index_id uuid,            -- that the view shows; null until it is made
  held_back text, removed_at timestamptz,
  created_at timestamptz not null default now(), updated_at timestamptz not null default now(),
  constraint publication_pkey primary key (tenant_id, id),
  constraint publication_collection_check check (collection ~ '^[a-z_][a-z0-9_]{0,62}$' and collection !~ '^pg_'),
  constraint publication_content_key_check check (content_key ~ '^[A-Za-z_][A-Za-z0-9_.-]{0,62}$'),
  constraint publication_verifier_check check (verifier ~ '^SCRAM-SHA-256\\$[A-Za-z0-9+/=:$]{80,200}$'),
  constraint publication_tenant_id_kb_id_fkey foreign key (tenant_id, kb_id) references knowledge_base);
create unique index publication_kb_idx on publication (tenant_id, kb_id) where removed_at is null;
"""

# The tenant's level, as app/documents/scopes.py makes its key. What is looked up here is looked up as
# carrel_publication, once a query: its own publication, by the name of the login.
ROLE = r"""
do $$ begin
  begin create role carrel_publication nologin; exception when duplicate_object then null; end;
  execute format('grant carrel_publication to %I with inherit false, set true', current_user);  -- it makes the views
end $$;
grant usage on schema public to carrel_publication;
grant select on chunk_embedding to carrel_publication;
grant select (tenant_id, index_id, id, document_id, content) on chunk to carrel_publication;
grant select (tenant_id, id, kb_id, scope_level, dynamic, expires_at) on document to carrel_publication;
grant select (tenant_id, id, metadata_filter, pending_filter, deleted_at) on knowledge_base to carrel_publication;
grant select (tenant_id, id, kb_id, index_id, removed_at) on publication to carrel_publication;
grant select (id, deleted_at) on tenant to carrel_publication;

create policy publication on tenant for select to carrel_publication using (deleted_at is null);
create policy publication on publication for select to carrel_publication
  using (id = substring(session_user::text from '^carrel_pub_([0-9a-f]{32})$')::uuid and removed_at is null
         and exists (select from tenant t where t.id = tenant_id));
create policy publication on knowledge_base for select to carrel_publication
  using (tenant_id = (select p.tenant_id from publication p) and id = (select p.kb_id from publication p)
         and deleted_at is null);
create policy publication on document for select to carrel_publication
  using (tenant_id = (select p.tenant_id from publication p) and kb_id = (select p.kb_id from publication p)
         and scope_level = 'tenant' and not dynamic and (expires_at is null or expires_at > now()));
create policy publication on chunk for select to carrel_publication
  using (tenant_id = (select p.tenant_id from publication p) and index_id = (select p.index_id from publication p)
         -- `offset 0` keeps it a look-up by key: a planner that hashes it reads every document first.
         and exists (select from document d where d.tenant_id = chunk.tenant_id and d.id = chunk.document_id offset 0));
create policy publication on chunk_embedding for select to carrel_publication
  using (tenant_id = (select p.tenant_id from publication p) and index_id = (select p.index_id from publication p)
         and scope_key = '7685c63c-898a-5fdf-9657-6dbb2c1d163f'
         -- As a case, of which the planner expects every second row to pass: it takes @> for one row in a hundred, and
         -- would read all rows in search of those few rather than walk the vector index.
         and case when metadata @> (select k.metadata_filter from knowledge_base k)
                    or metadata @> (select k.pending_filter from knowledge_base k) then true else false end);
"""


def upgrade() -> None:
    run_script(TABLE)
    run_script(walls("publication"))
    run_script(ROLE)
