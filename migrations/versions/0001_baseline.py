"""Schema of version 0.1.0.

Revision ID: 0001_baseline
Revises:

The tables' owner runs it: a NOSUPERUSER CREATEROLE login that owns the database. The extension `vector` must exist.
app/db/migrate.py refuses databases of earlier versions.
"""

from app.db.migrate import build_rls_script, run_script
from app.db.sql_files import build_function_script, build_trigger_script, read_migration_sql

revision = "0001_baseline"
down_revision = None
branch_labels = None
depends_on = None

SCRIPTS = ("baseline/roles.sql", "baseline/tables.sql", "baseline/policies.sql")

FUNCTIONS = (
    "owner/all_private_levels",
    "owner/check_agent_binding_quota",
    "owner/check_api_key_quota",
    "owner/check_chat_quota",
    "owner/check_file_batch_file_quota",
    "owner/check_file_batch_quota",
    "owner/check_idempotency_key_quota",
    "owner/check_knowledge_base_quota",
    "owner/check_prompt_version_quota",
    "owner/check_sql_view_quota",
    "owner/check_stored_file_quota",
    "owner/check_webhook_quota",
    "owner/count_document",
    "owner/count_stored_file",
    "owner/current_tenant",
    "owner/default_row_quota",
    "owner/filter_term",
    "owner/filter_terms",
    "owner/is_open_level",
    "owner/notification_name",
    "owner/notify_document",
    "owner/notify_key",
    "owner/recount_documents",
    "owner/require_unchanged",
    "owner/system_tenant",
    "owner/uncount_documents",
    "owner/value_key",
    "carrel_search/check_tenant",
    "carrel_search/dense_search",
    "carrel_search/hnsw_search",
    "carrel_search/hybrid_search",
    "carrel_search/lexical_search",
    "carrel_search/lexical_search_within",
    "carrel_search/lookup_terms",
    "carrel_search/prefers_hnsw",
    "carrel_search/query_term_weights",
    "carrel_search/search_plan",
    "carrel_search/search_sample",
    "carrel_control/acquire_rate_slot",
    "carrel_control/claim_delivery",
    "carrel_control/claim_work",
    "carrel_control/count_workers",
    "carrel_control/find_changed_indexes",
    "carrel_control/find_expired_documents",
    "carrel_control/find_expired_indexes",
    "carrel_control/find_key",
    "carrel_control/find_outdated_indexes",
    "carrel_control/find_rejected_key",
    "carrel_control/find_stalled_backfills",
    "carrel_control/find_unfinished_deletions",
    "carrel_control/find_weakest_confinement",
    "carrel_control/get_queue_stats",
    "carrel_control/is_idle_tenant_waiting",
    "carrel_control/list_outages",
    "carrel_control/list_tenants",
    "carrel_control/notify_daily_quota_webhooks",
    "carrel_control/notify_document_deletion_webhooks",
    "carrel_control/notify_document_webhooks",
    "carrel_control/notify_knowledge_base_webhooks",
    "carrel_control/notify_quota_change_webhooks",
    "carrel_control/notify_quota_webhooks",
    "carrel_control/notify_reindex_webhooks",
    "carrel_control/notify_storage_quota_webhooks",
    "carrel_control/notify_webhooks",
    "carrel_control/pause_provider",
    "carrel_control/reap_jobs",
    "carrel_control/remove_old_audit_events",
    "carrel_control/remove_old_deletions",
    "carrel_control/resume_jobs",
    "carrel_control/retry_failed_documents",
)

TRIGGERS = (
    "agent_binding_quota",
    "api_key_changed",
    "api_key_quota",
    "chat_quota",
    "document_added",
    "document_changed",
    "document_deleted",
    "document_deleted_notify_webhooks",
    "document_notify_webhooks",
    "document_recounted",
    "file_batch_file_quota",
    "file_batch_quota",
    "idempotency_key_quota",
    "knowledge_base_notify_webhooks",
    "knowledge_base_quota",
    "prompt_version_quota",
    "search_index_notify_webhooks",
    "sql_view_quota",
    "stored_file_counted",
    "stored_file_quota",
    "tenant_changed",
    "tenant_notify_webhooks",
    "tenant_usage_notify_webhooks",
    "usage_day_notify_webhooks",
    "webhook_quota",
)

# In these tables, every tenant may read the rows of the system tenant: they are the shared level.
SHARED_TABLES = (
    "knowledge_base",
    "search_index",
    "document",
    "document_object",
    "document_text",
    "document_page",
    "document_image",
    "node",
    "chunk",
    "chunk_embedding",
    "chunk_lexical",
    "term_document_frequency",
    "index_totals",
    "routing_profile",
    "routing_vector",
)

TENANT_TABLES = (
    "api_key",
    "api_key_use",
    "image_caption",
    "embedding_checkpoint",
    "embedding_usage",
    "job",
    "tenant_queue",
    "worker_heartbeat",
    "provider_rate_limit",
    "private_frequency",
    "agent_binding",
    "prompt_version",
    "chat",
    "idempotency_key",
    "idempotency_subject",
    "vector_store_labels",
    "stored_file",
    "file_batch",
    "file_batch_file",
    "webhook",
    "webhook_delivery",
    "sql_view",
    "tenant_usage",
    "key_usage",
    "usage_day",
    "quota_lock",
    "rate_bucket",
    "row_allowance",
    "deletion",
)


def upgrade() -> None:
    roles, tables, policies = (read_migration_sql(path) for path in SCRIPTS)
    run_script("set local lock_timeout = '5s';" + roles)
    run_script(build_function_script(FUNCTIONS, revision))
    run_script(tables)
    run_script(build_rls_script(*SHARED_TABLES, shared=True))
    run_script(build_rls_script(*TENANT_TABLES))
    run_script(policies)
    run_script(build_trigger_script(TRIGGERS, revision))
