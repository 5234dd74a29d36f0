"""Names of the fields of requests: parameters of paths, and fields that are not ids."""

# Parameters of paths. proofs/isolation/tenants.py creates an object for each.
PATH_FIELDS = frozenset(
    """kb document node chunk entity correction api_key tenant deletion n page agent_id prompt number file
    vector_store_file batch webhook delivery golden_set item evaluation job""".split()  # noqa: SIM905
)
# Fields of queries and bodies that do not refer to objects of a tenant. `after` and `before` of files and vector stores
# use only the time inside an id, so the object need not exist.
PLAIN_FIELDS = frozenset(
    """limit cursor include wait status name title description model dimensions strategy strategy_options max_tokens
    prefix q
    overlap_tokens top_k metadata metadata_filter language chunking embedding retrieval role expires_at source_uri
    source_created_at encoding media_type text file query queries messages content score_threshold
    timeout_seconds offsets depth level dynamic chunks vector page section_titles options
    action from to format overlap_seconds by quotas documents stored_bytes upload_bytes embedding_tokens_per_day
    searches_per_second concurrent_ingestions sql_views
    agents concurrent_searches event_streams
    knowledge_bases api_keys prompt_versions webhooks stored_responses sql_views files file_batches batch_files
    chats golden_sets golden_items evaluations combine relevant settings
    measure change collapse
    repeat exclude_dynamic expand expand_options window max_characters return_vectors explain merge image
    rerank transformers rewrite_prompt answer_prompt prompt session_scope max_top_k max_messages citations
    max_snippet_chars stream max_context_tokens compress
    hostname port path api_key user password dbname sslmode embedding_model embedding_dimensions id version
    collection content_key provider password_variable prompt_id prompt_version base_url api_key_variable
    kind source url method params headers body items score response domains secret
    jsonrpc retrieval_setting logical_operator comparison_operator
    after before order filter purpose expires_after expires_after[anchor] expires_after[seconds] anchor days
    chunking_strategy static
    max_chunk_size_tokens chunk_overlap_tokens attributes filters key type value max_num_results ranking_options ranker
    hybrid_search embedding_weight text_weight rewrite_query
    conversation graph metadata_keys extractors enrichment summaries keywords entities relations count subject predicate
    object context_lines max_tokens_per_document
    max_tokens_per_day
    state error_code
    events enabled routing route_top_n top_n always scale descriptions examples description_weight""".split()  # noqa: SIM905  (a list of words)
)
