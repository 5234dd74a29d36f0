"""New names of the objects of the 52 former migrations, for an object-by-object comparison with the baseline.

The catalogue of those migrations is stored unchanged. Its words are replaced here, whole words only: names of tables,
columns, functions, triggers and roles, and names inside a function's body. Everything else has to be equal.
"""

import re
from collections.abc import Mapping

from tests.db.catalogue import Catalogue

# Former names, replaced wherever the catalogue has them as a word.
NAMES: Mapping[str, str] = {
    # Queue, workers, model providers, locks
    "job_lane": "tenant_queue",
    "worker_beat": "worker_heartbeat",
    "beat_at": "heartbeat_at",
    "provider_pace": "provider_rate_limit",
    "quota_turn": "quota_lock",
    "claim_turn": "claim_lock",
    "owner_turn": "index_build_lock",
    # Frequencies and totals of search indexes, and functions that search them
    "lex_df": "term_document_frequency",
    "lex_df_key": "term_document_frequency_key",
    "lex_totals": "index_totals",
    "lex_totals_changed_idx": "index_totals_changed_idx",
    "lex_totals_index": "index_totals_idx",
    "folded": "merged",
    "dense_lane": "dense_search",
    "lexical_lane": "lexical_search",
    "lexical_near": "lexical_search_within",
    "p_any": "p_lookup_terms",
    "p_cosines": "p_max_cosines",
    "p_narrowed": "p_user_restricted",
    "p_others": "p_other_queries",
    "p_seen": "p_visible_chunks",
    # Images and stored files
    "document_media": "document_image",
    "media_ordinal": "image_ordinal",
    "picture_description": "image_caption",
    "picture_description_document_idx": "image_caption_document_idx",
    "openai_batch_file": "file_batch_file",
    "openai_batch_file_document_idx": "file_batch_file_document_idx",
    "openai_batch_file_quota": "file_batch_file_quota",
    "openai_file": "stored_file",
    "openai_file_batch": "file_batch",
    "openai_file_batch_job_idx": "file_batch_job_idx",
    "openai_file_batch_kb_idx": "file_batch_kb_idx",
    "openai_file_batch_quota": "file_batch_quota",
    "openai_file_counted": "stored_file_counted",
    "openai_file_quota": "stored_file_quota",
    "openai_store": "vector_store_labels",
    "check_openai_batch_file_quota": "check_file_batch_file_quota",
    "check_openai_file_batch_quota": "check_file_batch_quota",
    "check_openai_file_quota": "check_stored_file_quota",
    "count_kept_file": "count_stored_file",
    "kept_files": "retained_files",
    # SQL views
    "carrel_publication": "carrel_sql_view",
    "carrel_pub_": "carrel_sql_view_",
    "check_publication_quota": "check_sql_view_quota",
    "publication": "sql_view",
    "publication_collection_check": "sql_view_collection_check",
    "publication_content_key_check": "sql_view_content_key_check",
    "publication_kb_idx": "sql_view_kb_idx",
    "publication_quota": "sql_view_quota",
    "publication_verifier_check": "sql_view_verifier_check",
    "publications": "sql_views",
    # Quotas
    "kept_answers": "stored_responses",
    # Columns
    "filter_number": "filter_revision",
    "made_at": "created_at",
    "passages": "inputs",
    "pending_filter": "pending_metadata_filter",
    "resting_until": "paused_until",
    "stamp_number": "metadata_revision",
    # Kinds of jobs
    "make_centroids": "refresh_routing_profile",
    "restamp_knowledge_base": "backfill_metadata",
    # Events of webhooks, and triggers
    "document_gone": "document_deleted",
    "document_gone_told": "document_deleted_notify_webhooks",
    "document_grown": "document_recounted",
    "document_told": "document_notify_webhooks",
    "knowledge_base_told": "knowledge_base_notify_webhooks",
    "search_index_told": "search_index_notify_webhooks",
    "tell_changed_quotas": "notify_quota_change_webhooks",
    "tell_daily_quota": "notify_daily_quota_webhooks",
    "tell_deleted_documents": "notify_document_deletion_webhooks",
    "tell_document": "notify_document_webhooks",
    "tell_knowledge_base": "notify_knowledge_base_webhooks",
    "tell_quota": "notify_quota_webhooks",
    "tell_reindexed": "notify_reindex_webhooks",
    "tell_stored_quotas": "notify_storage_quota_webhooks",
    "tell_webhooks": "notify_webhooks",
    "tenant_told": "tenant_notify_webhooks",
    "tenant_usage_told": "tenant_usage_notify_webhooks",
    "usage_day_told": "usage_day_notify_webhooks",
    # Functions that read all tenants
    "changed_indexes": "find_changed_indexes",
    "claim_pace": "acquire_rate_slot",
    "expired_documents": "find_expired_documents",
    "expired_indexes": "find_expired_indexes",
    "idle_tenant_waits": "is_idle_tenant_waiting",
    "known_outages": "list_outages",
    "queue_figures": "get_queue_stats",
    "refused_key": "find_rejected_key",
    "stalled_restamps": "find_stalled_backfills",
    "unfinished_deletions": "find_unfinished_deletions",
    "unsettled_indexes": "find_outdated_indexes",
    "weakest_confinement": "find_weakest_confinement",
}
# Former names inside one object, by the object's former name: parameters and local names of a function.
NAMES_WITHIN: Mapping[str, Mapping[str, str]] = {
    "api_key": {"quota_key_id": "key_lineage_id"},
    "claim_delivery": {"lane": "candidate"},
    "claim_pace": {"pace": "bucket", "most_requests": "max_requests", "most_tokens": "max_tokens"},
    "claim_work": {"lane": "candidate", "lanes": "candidates"},
    "count_kept_file": {"more": "added_bytes"},
    "dense_lane": {"way": "method"},
    "expired_indexes": {"p_undo": "p_rollback_period"},
    "find_key": {"quota_key_id": "key_lineage_id"},
    "hybrid_search": {"lane": "retriever", "p_least": "p_min_similarity", "seen": "visible_chunks"},
    "lex_df": {"top": "max_weight"},
    "lex_df_key": {"top": "max_weight"},
    "lexical_lane": {"top": "max_weight", "most": "max_score", "least": "min_score", "arms": "branches"},
    "lexical_near": {"p_least": "p_min_similarity"},
    "openai_file": {"key_id": "key_lineage_id"},
    "openai_file_batch": {"key_id": "key_lineage_id"},
    "publication": {"held_back": "blocked_reason"},
    "reap_jobs": {"held": "locked_ids", "put_back": "requeued"},
    "recount_documents": {"grown": "changed"},
    "remove_old_audit_events": {"p_keep": "p_retention", "gone": "removed"},
    "remove_old_deletions": {"p_keep": "p_retention", "gone": "removed"},
    "search_index": {"held_back": "skip_reason", "search_index_held_back_check": "search_index_skip_reason_check"},
    "search_plan": {"way": "method"},
    "search_sample": {"kept": "cached", "lane": "prefix", "p_least": "p_min_chunks", "way": "value_path"},
    "tell_daily_quota": {"most": "quota_limit"},
    "tell_deleted_documents": {"gone": "deleted"},
    "tell_document": {"base": "kb_name"},
    "tell_knowledge_base": {"base": "kb_name", "unseen": "ignored"},
    "tell_reindexed": {"base": "kb_name"},
    "tell_stored_quotas": {"of_tenant": "tenant_quotas"},
    "tell_webhooks": {"told": "targets"},
    "uncount_documents": {"gone": "deleted"},
    "unsettled_indexes": {
        "p_drift": "p_max_drift",
        "p_changed": "p_max_changed_share",
        "p_most": "p_max_changed_chunks",
        "asked": "enqueued",
        "found": "examined",
        "wanting": "outdated",
    },
}
_WORD = re.compile(r"\w+")
_GRANTS = re.compile(r"(?<=grants )\w.*?(?=,?$|;|,\n)", re.MULTILINE)
# Names that the database derives from a table's name.
_TABLE_SUFFIX = re.compile(r"(\w+?)(_pkey|_tenant_id(_\w+)?_fkey)")


def renamed(former: Catalogue) -> dict[str, dict[str, str]]:
    """Return a catalogue with the new names in place of the former ones."""
    return {
        kind: {_rename(name, name): _rename(text, name) for name, text in objects.items()}
        for kind, objects in former.items()
    }


def _rename(text: str, name: str) -> str:
    """Replace the former names in a text about the object of this former name."""
    within = NAMES_WITHIN.get(re.split(r"[.(]", name)[0], {})
    text = _WORD.sub(lambda word: _rename_word(word[0], within), text)
    # The catalogue sorts grants by the roles' names.
    return _GRANTS.sub(lambda grants: ", ".join(sorted(grants[0].split(", "))), text)


def _rename_word(word: str, within: Mapping[str, str]) -> str:
    if word in within:
        return within[word]
    if word in NAMES:
        return NAMES[word]
    constraint = _TABLE_SUFFIX.fullmatch(word)
    return NAMES.get(constraint[1], constraint[1]) + constraint[2] if constraint else word
