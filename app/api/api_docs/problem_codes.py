"""Error codes of each operation. No other module lists the codes of an operation.

Most codes follow from the form of an operation: its path parameters, its body, whether it writes or searches.
``OPERATION_CODES`` has the others. Tests compare the codes of real replies with them.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

# Any operation that needs a key.
COMMON_CODES = (
    "unauthorized", "forbidden", "invalid", "too_large", "too_many_requests", "too_many_failed_sign_ins",
    "too_many_connections", "headers_too_large", "request_timeout", "internal", "database_unavailable", "unavailable",
    "issuer_unavailable",
)  # fmt: skip
PATH_PARAMETER_CODES = {
    "agent_id": "agent_not_found",
    "api_key": "api_key_not_found",
    "batch": "file_batch_not_found",
    "chunk": "chunk_not_found",
    "deletion": "deletion_not_found",
    "delivery": "delivery_not_found",
    "document": "document_not_found",
    "file": "file_not_found",
    "correction": "correction_not_found",
    "entity": "entity_not_found",
    "evaluation": "evaluation_not_found",
    "golden_set": "golden_set_not_found",
    "item": "golden_item_not_found",
    "job": "job_not_found",
    "kb": "knowledge_base_not_found",
    "n": "image_not_found",
    "node": "node_not_found",
    "page": "page_not_found",
    "number": "prompt_version_not_found",
    "tenant": "tenant_not_found",
    "vector_store_file": "document_not_found",
    "webhook": "webhook_not_found",
}
BODY_CODES = ("unsupported_content_encoding",)
JSON_BODY_CODES = ("too_many_large_bodies", "large_bodies_busy")
WRITE_CODES = (
    "conflict", "idempotency_in_progress", "idempotency_key_reused", "idempotency_response_deleted",
    "idempotency_response_too_large", "idempotency_rights_changed",
)  # fmt: skip
SECRET_CODES = ("idempotency_secret_shown",)
SEARCH_CODES = (
    "knowledge_base_not_found", "rate_limited", "quota_exceeded", "filter_too_expensive", "index_mismatch",
    "search_unavailable", "embedding_unavailable", "http_source_unavailable", "weights_missing", "weights_damaged",
)  # fmt: skip
ANSWER_CODES = (*SEARCH_CODES, "chat_not_configured", "chat_unavailable")
UPLOAD_CODES = (
    "empty", "quota_exceeded", "no_document_store", "index_mismatch", "unsupported_media_type", "upload_conflict",
    "encrypted", "object_store_unavailable", "temp_disk_full",
)  # fmt: skip
CHUNK_CHANGE_CODES = (
    "chunks_not_provided", "document_in_progress", "shared_document", "duplicate_identity", "object_missing",
    *UPLOAD_CODES,
)  # fmt: skip
OBJECT_CODES = ("object_missing", "object_store_unavailable")
TRANSFER_CODES = ("too_many_transfers", "transfers_busy", "object_store_unavailable", "temp_disk_full")

OPERATION_CODES: Mapping[str, Sequence[str]] = {
    "remove_golden_relevance": ("golden_relevance_not_found", "last_golden_relevance"),
    "add_golden_items": ("quota_exceeded", "too_many_golden_items", "too_many_relevant"),
    "answer_from_knowledge_base": ANSWER_CODES,
    "answer_question": ANSWER_CODES,
    "bind_agent": ("knowledge_base_not_found", "quota_exceeded"),
    "cancel_reindex": ("reindex_not_found",),
    "create_api_key": ("knowledge_base_not_found", "quota_exceeded", *SECRET_CODES),
    "create_file": ("empty", "quota_exceeded", "object_store_unavailable", "temp_disk_full"),
    "create_evaluation": (
        "golden_set_not_found", "golden_set_empty", "knowledge_base_not_found", "quota_exceeded",
        "too_many_evaluations",
    ),
    "create_golden_set": ("quota_exceeded",),
    "create_knowledge_base": ("knowledge_base_exists", "quota_exceeded"),
    "create_sql_view": (
        "sql_view_exists", "sql_view_unsupported", "sql_views_disabled", "no_document_store", "quota_exceeded",
        *SECRET_CODES,
    ),
    "create_tenant": SECRET_CODES,
    "create_vector_store": ("file_not_found", "knowledge_base_exists", "quota_exceeded"),
    "create_vector_store_file": ("file_not_found", *UPLOAD_CODES),
    "create_vector_store_file_batch": ("file_not_found", *UPLOAD_CODES),
    "create_webhook": ("too_many_webhooks", "quota_exceeded", *SECRET_CODES),
    "delete_chunk": ("last_chunk", *CHUNK_CHANGE_CODES),
    "delete_document": ("shared_document",),
    "delete_vector_store_file": ("shared_document",),
    "estimate_enrichment": ("no_document_store",),
    "export_knowledge_base": ("no_document_store", "export_interrupted", "object_missing", *TRANSFER_CODES),
    "get_document_content": ("range", *OBJECT_CODES),
    "get_document_tree": ("too_many_trees", "trees_busy"),
    "get_enrichment": ("no_document_store",),
    "get_file_content": OBJECT_CODES,
    "get_image": OBJECT_CODES,
    "get_page_image": (
        "page_images_unsupported", "page_image_too_large", "page_image_failed", "page_image_timeout",
        "too_many_page_images", "page_images_busy", "parser_unavailable", "temp_disk_full", *OBJECT_CODES,
    ),
    "get_sql_view": ("sql_view_not_found",),
    "send_mcp_message": ("origin_not_allowed", "unsupported_media_type"),
    "import_archive": (
        "archive_damaged", "archive_mismatch", "archive_truncated", "archive_version_unsupported", "index_mismatch",
        "no_document_store", "quota_exceeded", "too_many_corrections", "unsupported_media_type", *TRANSFER_CODES,
    ),
    "get_document_graph": ("no_document_store",),
    "get_entity": ("no_document_store",),
    "list_chunks": ("node_not_found",),
    "list_deletions": ("knowledge_base_not_found",),
    "list_entities": ("no_document_store",),
    "list_evaluations": ("golden_set_not_found",),
    "delete_correction": ("no_document_store", "too_many_corrections"),
    "merge_entities": ("entity_not_found", "no_document_store", "too_many_corrections"),
    "split_entity": ("document_not_found", "entity_not_found", "no_document_store", "too_many_corrections"),
    "pin_agent_prompt": ("quota_exceeded",),
    "pin_knowledge_base_prompt": ("quota_exceeded",),
    "preview_document": (
        "knowledge_base_not_found", "corrupt", "empty", "encrypted", "no_text", "too_many_pages", "parser_memory",
        "parser_timeout", "unsupported_media_type", "index_mismatch", "no_document_store", "quota_exceeded",
        "preview_busy", "parser_unavailable", "sandbox_unavailable", "temp_disk_full",
    ),
    "put_chunk": CHUNK_CHANGE_CODES,
    "reindex_document": ("shared_document", "no_document_store", "index_mismatch", "quota_exceeded"),
    "reindex_knowledge_base": ("reindex_in_progress", "metadata_filter_pending", "no_document_store", "index_mismatch"),
    "replay_webhook_delivery": ("webhook_disabled",),
    "revoke_sql_view": ("sql_view_not_found",),
    "roll_back_reindex": ("reindex_in_progress", "nothing_to_roll_back", "no_document_store", "index_mismatch"),
    "list_jobs": ("knowledge_base_not_found",),
    "retry_jobs": ("knowledge_base_not_found",),
    "retry_job": ("job_not_failed",),
    "rotate_api_key": ("api_key_expired", "api_key_replaced", "quota_exceeded", *SECRET_CODES),
    "rotate_webhook_secret": SECRET_CODES,
    "run_enrichment": ("enrichment_disabled", "chat_not_configured", "no_document_store"),
    "search_for_agent": SEARCH_CODES,
    "search_knowledge_base": SEARCH_CODES,
    "search_knowledge_base_for_agent": SEARCH_CODES,
    "search_knowledge_bases": SEARCH_CODES,
    "search_vector_store": SEARCH_CODES,
    "stream_document_events": ("rate_limited", "quota_exceeded"),
    "stream_knowledge_base_events": ("rate_limited", "quota_exceeded"),
    "test_webhook": ("webhook_disabled",),
    "update_agent": ("knowledge_base_not_found", "quota_exceeded"),
    "update_document": (
        "shared_document", "duplicate_identity", "no_document_store", "index_mismatch", "metadata_filter_pending",
        "quota_exceeded",
    ),
    "update_knowledge_base": (
        "knowledge_base_exists", "metadata_filter_pending", "reindex_in_progress", "no_document_store",
        "quota_exceeded",
    ),
    "update_vector_store_file": ("shared_document", "duplicate_identity", "metadata_filter_pending"),
    # The document may be deleted during `wait`.
    "upload_document": ("document_not_found", *UPLOAD_CODES),
    "upload_document_batch": UPLOAD_CODES,
}  # fmt: skip
# ``bind_agent`` creates a missing binding, so it never answers with this code.
EXCLUDED_CODES: Mapping[str, Sequence[str]] = {"bind_agent": ("agent_not_found",)}


def list_codes(operation: Mapping[str, Any]) -> list[str]:
    """Return the error codes of an operation of the OpenAPI document."""
    parameters = operation.get("parameters", ())
    names = {(parameter["in"], parameter["name"]) for parameter in parameters}
    codes: Iterable[str] = (
        *COMMON_CODES,
        *(code for name, code in PATH_PARAMETER_CODES.items() if ("path", name) in names),
        *(BODY_CODES if "requestBody" in operation else ()),
        *(JSON_BODY_CODES if "application/json" in operation.get("requestBody", {}).get("content", {}) else ()),
        *(WRITE_CODES if ("header", "Idempotency-Key") in names else ()),
        *(("precondition_failed",) if ("header", "If-Match") in names else ()),
        *OPERATION_CODES.get(operation["operationId"], ()),
    )
    excluded = EXCLUDED_CODES.get(operation["operationId"], ())
    return [code for code in dict.fromkeys(codes) if code not in excluded]
