"""The exact way is taken up to where it is as slow as the HNSW: it has become faster since that was weighed.

Revision ID: 0042
Revises: 0041

One function. Of 100,000 chunks a range that a tenth passes stood at the border: which way was taken hung on the sample, and the HNSW took half as
long again (make bench-scale).
"""

from app.db.migrate import run_script

revision = "0042"
down_revision = "0041"
branch_labels = None
depends_on = None

FUNCTIONS = r"""
grant create on schema public to carrel_search;  -- while it replaces its function
set role carrel_search;
-- Whether k rows come sooner through the HNSW: 25 us for each of the k / share that it visits, beside 0.9 us a row that an index of filter or scopes
-- finds, or 0.6 us a row where all are read in turn. Never for 5,000 rows and fewer, or a share of k / 10,000, where it would find too little.
create or replace function prefers_hnsw(p_total bigint, p_share float8, p_reach float8, p_k int) returns bool language sql immutable
set search_path = pg_catalog, public, pg_temp as $f$
  select p_share * p_total > 5000 and p_k <= 10000 * p_share
     and 25.0 * p_k < p_share * p_total * case when p_reach < 1 then 0.9 * p_reach else 0.6 end
$f$;
reset role;
revoke create on schema public from carrel_search;
"""


def upgrade() -> None:
    run_script(FUNCTIONS)
