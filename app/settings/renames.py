"""Variables and JSON keys of earlier versions that have new names."""

from app.settings.settings_group import PREFIX

# Old name -> new name, both without the prefix. A variable with an old name stops the start.
RENAMED_VARIABLES = {
    "ANSWER_CITATION_SECONDS": "ANSWER_CITATION_TIMEOUT_SECONDS",
    "ANSWER_DIGEST_SECONDS": "ANSWER_COMPRESSION_TIMEOUT_SECONDS",
    "ANSWER_FIRST_TOKEN_SECONDS": "ANSWER_FIRST_TOKEN_TIMEOUT_SECONDS",
    "CLIENT_SECONDS": "CLIENT_TIMEOUT_SECONDS",
    "CONNECTIONS_PER_ADDRESS": "MAX_CONNECTIONS_PER_ADDRESS",
    "EMBEDDING_PICTURES": "EMBEDDING_IMAGES",
    "FAILED_SIGN_INS": "AUTH_FAILURES_PER_MINUTE",
    "KEEP_ALIVE_SECONDS": "KEEP_ALIVE_TIMEOUT_SECONDS",
    "LANE_ROWS": "RETRIEVER_CANDIDATES",
    "PARSER_CPU_SECONDS": "PARSER_CPU_TIMEOUT_SECONDS",
    "PARSER_MEMORY_MB": "PARSER_MAX_MEMORY_MB",
    "PARSER_WALL_SECONDS": "PARSER_TIMEOUT_SECONDS",
    "PUBLICATION": "SQL_VIEWS",
    "PUBLICATION_DATABASE": "SQL_VIEW_DATABASE",
    "PUBLICATION_HOST": "SQL_VIEW_HOST",
    "PUBLICATION_PORT": "SQL_VIEW_PORT",
    "PUBLICATION_SSLMODE": "SQL_VIEW_SSLMODE",
    "REINDEX_UNDO_SECONDS": "REINDEX_ROLLBACK_SECONDS",
    "RERANK_STYLE": "RERANK_API",
    "TRANSFER_WAIT_SECONDS": "TRANSFER_WAIT_TIMEOUT_SECONDS",
    "WEBHOOK_DISABLE_AFTER": "WEBHOOK_MAX_CONSECUTIVE_FAILURES",
    "WORKER_EXPIRY_SECONDS": "WORKER_EXPIRY_INTERVAL_SECONDS",
    "WORKER_LEASE_SECONDS": "WORKER_LEASE_TIMEOUT_SECONDS",
    "WORKER_MAINTENANCE_SECONDS": "WORKER_MAINTENANCE_INTERVAL_SECONDS",
    "WORKER_ORPHAN_SECONDS": "WORKER_ORPHAN_AGE_SECONDS",
    "WORKER_SILENT_SECONDS": "WORKER_HEARTBEAT_TIMEOUT_SECONDS",
    "WORKER_SWEEP_SECONDS": "WORKER_SWEEP_INTERVAL_SECONDS",
}
# Current variable, without the prefix -> old name of a JSON key -> new name.
RENAMED_KEYS = {
    "DEFAULT_QUOTAS": {"kept_answers": "stored_responses", "publications": "sql_views"},
    "EMBEDDING_MODELS": {"pictures": "images"},
    "HTTP_SOURCES": {"private": "allow_private"},
}
# Variable of an earlier version -> its replacement, whose value has another form.
REPLACED_VARIABLES = {"HTTP_SOURCE_HOSTS": "HTTP_SOURCES", "HTTP_SOURCE_SECRETS": "HTTP_SOURCES"}


def explain_renamed_variables(names: list[str]) -> str | None:
    """Return one line with the new name of each old name among ``names``, or None if there is no old name."""
    renamed = {name: RENAMED_VARIABLES.get(name.removeprefix(PREFIX)) for name in names}
    sentences = [f"{old} is called {PREFIX}{new} now" for old, new in renamed.items() if new is not None]
    if sentences:
        return "; ".join(sentences) + "."
    replaced = {name: REPLACED_VARIABLES.get(name.removeprefix(PREFIX)) for name in names}
    for old, new in replaced.items():
        if new is not None:
            return f"{old} was replaced by {PREFIX}{new}; .env.example explains it"
    return None


def find_new_key(variable: str, key: str) -> str | None:
    """Return the new name of a JSON key in the value of ``variable``, or None if ``key`` is no old name."""
    return RENAMED_KEYS.get(variable.removeprefix(PREFIX), {}).get(key)
