// Types of the API, made from /openapi.json by `make console`. Do not edit.

export type ActorKind = "key" | "token" | "operator" | "service" | "unknown";

export interface AgentBindingList {
  items: AgentBindingOut[];
  next_cursor?: string | null;
  total?: number | null;
  warnings?: WarningOut[];
}

export interface AgentBindingOut {
  id: string;
  agent_id: string;
  knowledge_bases: string[];
  session_scope: boolean;
  strategy: string | null;
  strategy_options: Record<string, unknown>;
  transformers: TransformerConfig[] | null;
  conversation: boolean | null;
  rewrite_prompt: string | null;
  answer_prompt: string | null;
  filter: Record<string, unknown> | null;
  top_k: number | null;
  max_top_k: number | null;
  score_threshold: number | "auto" | null;
  max_messages: number | null;
  timeout_seconds: number | null;
  citations: "none" | "prefix";
  max_snippet_chars: number | null;
  route_top_n: number | null;
  combine: "best" | "sum" | null;
  collapse: boolean;
  rerank: boolean | null;
  created_at: string;
  updated_at: string;
}

export interface AgentSearchSourceOut {
  type?: "external";
  hostname: string;
  port?: number | null;
  path: string;
  api_key?: string | null;
  top_k?: number;
  max_messages?: number;
  timeout_seconds?: number;
}

export interface AnswerCitationOut {
  document: ResultDocumentOut;
  knowledge_base: string;
  sources: number[];
  citation: string;
  method: "model" | "overlap";
}

export interface AnswerOut {
  question: string;
  queries: string[];
  strategy: string;
  auto_thresholds?: AutoThresholdOut[] | null;
  reformulation: ReformulationOut | null;
  explain?: ExplanationOut | null;
  answer: string;
  sources: AnswerSourceOut[];
  citations: AnswerCitationOut[];
  abstained: boolean;
  warnings: WarningOut[];
  usage: TokenUsageOut;
  timings_ms: Record<string, number>;
}

export interface AnswerSourceOut {
  entities?: IncludedEntityOut[] | null;
  parent_summaries?: SectionSummaryOut[] | null;
  keywords?: KeywordOut[] | null;
  score: number;
  scores: ScoresOut;
  similarity: number | null;
  text: string;
  table_head: string | null;
  start: number;
  end: number;
  source_start?: number | null;
  source_end?: number | null;
  chunk_start: number;
  chunk_end: number;
  chunk_id: string | null;
  chunk_index: number;
  total_chunks: number;
  document: ResultDocumentOut;
  knowledge_base: string;
  page: number | null;
  page_end: number | null;
  slide: number | null;
  section_titles: string[];
  node_path: string[];
  image: ImageOut | null;
  metadata: Record<string, unknown>;
  flags: string[];
  citation: string;
  locator: LocatorOut;
  duplicates?: DuplicateOut[] | null;
  duplicate_count?: number | null;
  vector?: number[] | null;
  ranks?: RetrieverRankOut[] | null;
  path_names?: string[] | null;
  number: number;
  compressed_text: string | null;
}

export interface ApiKeyList {
  items: ApiKeyOut[];
  next_cursor?: string | null;
  total?: number | null;
  warnings?: WarningOut[];
}

export interface ApiKeyOut {
  id: string;
  name: string;
  role: string;
  hint: string;
  knowledge_bases: string[] | null;
  user_id: string | null;
  created_at: string;
  expires_at: string | null;
  last_used_at: string | null;
  replaced_by: string | null;
  quotas: ApiKeyQuotas;
}

export interface ApiKeyQuotas {
  documents?: number | null;
  stored_bytes?: number | null;
  chunks?: number | null;
  upload_bytes?: number | null;
  embedding_tokens_per_day?: number | null;
  searches_per_second?: number | null;
  concurrent_searches?: number | null;
  event_streams?: number | null;
  concurrent_ingestions?: number | null;
}

export type AuditAction = "tenant.create" | "tenant.update" | "tenant.delete" | "key.create" | "key.rotate" | "key.revoke" | "knowledge_base.create" | "knowledge_base.update" | "knowledge_base.delete" | "knowledge_base.reindex" | "knowledge_base.reindex_cancel" | "knowledge_base.reindex_rollback" | "knowledge_base.export" | "knowledge_base.enrichment_run" | "knowledge_base.entity_merge" | "knowledge_base.entity_split" | "knowledge_base.entity_undo" | "sql_view.create" | "sql_view.delete" | "agent.create" | "agent.update" | "agent.delete" | "webhook.create" | "webhook.update" | "webhook.delete" | "webhook.rotate" | "webhook.disable" | "webhook.test" | "webhook.replay" | "document.create" | "document.replace" | "document.update" | "document.reindex" | "document.prepare_reindex" | "document.delete" | "document.delete_many" | "document.expire" | "file.create" | "file.delete" | "file_batch.create" | "file_batch.cancel" | "golden_set.create" | "golden_set.update" | "golden_set.delete" | "golden_set.add_items" | "golden_set.delete_item" | "golden_set.remove_relevant" | "evaluation.create" | "evaluation.delete" | "job.retry" | "sign_in.fail";

export interface AuditActorOut {
  kind: ActorKind;
  id: string | null;
  name: string | null;
}

export interface AuditEventList {
  items: AuditEventOut[];
  next_cursor?: string | null;
  total?: number | null;
  warnings?: WarningOut[];
}

export interface AuditEventOut {
  id: string;
  created_at: string;
  action: AuditAction;
  actor: AuditActorOut;
  object: AuditObjectOut;
  knowledge_base: string | null;
  deletion: string | null;
  counts: Record<string, number>;
  request_id: string | null;
  address: string | null;
}

export interface AuditObjectOut {
  type: string;
  ids: string[];
}

export interface AutoThresholdOut {
  knowledge_base: string;
  shared: boolean;
  score_threshold: number | null;
}

export interface CallerKeyOut {
  id: string | null;
  name: string;
  role: string;
  knowledge_bases: string[] | null;
  user_id: string | null;
}

export interface CallerOut {
  tenant: Record<string, string>;
  key: CallerKeyOut;
  limits: Record<string, number>;
  usage: Record<string, number>;
}

export interface CapabilitiesOut {
  parsers: ParserOut[];
  ocr: OcrOut;
  chunkers: ComponentOut[];
  strategies: ComponentOut[];
  transformers: TransformerOut[];
  extractors: ExtractorOut[];
  graph_serializers: SerializerOut[];
  embedding_models: EmbeddingModelOut[];
  models: Record<string, boolean>;
  reranker: string | null;
  languages: string[];
  limits: Record<string, number>;
}

export interface ChunkDetailOut {
  warnings?: WarningOut[];
  boxes: LineBoxOut[];
  page_sizes: PageSizeOut[];
  entities?: IncludedEntityOut[] | null;
  parent_summaries?: SectionSummaryOut[] | null;
  keywords?: KeywordOut[] | null;
  id: string;
  chunk_index: number;
  total_chunks: number;
  text: string;
  table_head: string | null;
  start: number;
  end: number;
  source_start?: number | null;
  source_end?: number | null;
  tokens: number;
  page: number | null;
  page_end: number | null;
  slide: number | null;
  section_titles: string[];
  locator: LocatorOut;
  node_path: string[];
  depth: number;
  image: ImageOut | null;
  metadata: Record<string, unknown>;
  provided_entities?: ProvidedEntityOut[] | null;
  provided_relations?: ProvidedRelationOut[] | null;
  previous_chunk_id: string | null;
  next_chunk_id: string | null;
}

export interface ChunkList {
  warnings?: WarningOut[];
  items: ChunkOut[];
  next_cursor?: string | null;
  total?: number | null;
}

export interface ChunkOut {
  entities?: IncludedEntityOut[] | null;
  parent_summaries?: SectionSummaryOut[] | null;
  keywords?: KeywordOut[] | null;
  id: string;
  chunk_index: number;
  total_chunks: number;
  text: string;
  table_head: string | null;
  start: number;
  end: number;
  source_start?: number | null;
  source_end?: number | null;
  tokens: number;
  page: number | null;
  page_end: number | null;
  slide: number | null;
  section_titles: string[];
  locator: LocatorOut;
  node_path: string[];
  depth: number;
  image: ImageOut | null;
  metadata: Record<string, unknown>;
  provided_entities?: ProvidedEntityOut[] | null;
  provided_relations?: ProvidedRelationOut[] | null;
}

export interface ChunkingOut {
  strategy: string;
  max_tokens: number;
  overlap_tokens: number;
  options?: Record<string, unknown>;
}

export interface ComponentOut {
  name: string;
  description: string;
  options: Record<string, unknown>;
  default: boolean;
}

export interface DailyUsageOut {
  uploads: number;
  documents: number;
  bytes: number;
  chunks: number;
  searches: number;
  embedding_tokens: number;
  enrichment_calls: number;
  enrichment_tokens: number;
  day: string;
}

export interface DegradedStepOut {
  step: "rewrite" | "extra_queries" | "rerank" | "dense" | "lexical" | "vectors" | "http_source" | "strategy" | "graph" | "include";
  reason: string;
}

export interface DeletionList {
  items: DeletionOut[];
  next_cursor?: string | null;
  total?: number | null;
  warnings?: WarningOut[];
}

export interface DeletionOut {
  id: string;
  kind: "document" | "documents" | "knowledge_base" | "tenant";
  object: string | null;
  documents: number;
  chunks: number;
  bytes: number;
  requested_at: string;
  finished_at: string | null;
  remaining: Record<string, number> | null;
  retained: string[];
  retained_files: number;
  retention_until: string;
}

export interface DifferenceOut {
  mean: number;
  low: number;
  high: number;
  better: number;
  worse: number;
  equal: number;
  significant: boolean;
}

export interface DocumentDetailOut {
  id: string;
  knowledge_base: string;
  source: string;
  title: string;
  external_id: string | null;
  source_uri: string | null;
  source_created_at: string | null;
  media_type: string;
  bytes: number;
  sha256: string;
  version: number;
  live_version: number | null;
  status: "queued" | "parsing" | "chunking" | "embedding" | "ready" | "failed";
  progress: Record<string, unknown> | null;
  error: Record<string, unknown> | null;
  warnings: WarningOut[];
  chunk_count: number;
  page_count: number | null;
  language: string | null;
  metadata: Record<string, unknown>;
  scope: ScopeOut;
  dynamic: boolean;
  expires_at: string | null;
  created_at: string;
  updated_at: string;
  enrichment?: DocumentEnrichmentOut | null;
  tree?: DocumentTreeOut | null;
  chunks?: ChunkList | null;
}

export interface DocumentEnrichmentOut {
  state: "pending" | "running" | "capped" | "done" | "stopped" | "failed";
  sections: number;
  sections_done: number;
  calls: number;
  tokens: number;
  waiting_for: "chat_model" | "embedding_endpoint" | "rate_limit" | null;
  warnings: WarningOut[];
  updated_at: string;
}

export interface DocumentList {
  items: DocumentOut[];
  next_cursor?: string | null;
  total?: number | null;
  warnings?: WarningOut[];
}

export interface DocumentOut {
  id: string;
  knowledge_base: string;
  source: string;
  title: string;
  external_id: string | null;
  source_uri: string | null;
  source_created_at: string | null;
  media_type: string;
  bytes: number;
  sha256: string;
  version: number;
  live_version: number | null;
  status: "queued" | "parsing" | "chunking" | "embedding" | "ready" | "failed";
  progress: Record<string, unknown> | null;
  error: Record<string, unknown> | null;
  warnings: WarningOut[];
  chunk_count: number;
  page_count: number | null;
  language: string | null;
  metadata: Record<string, unknown>;
  scope: ScopeOut;
  dynamic: boolean;
  expires_at: string | null;
  created_at: string;
  updated_at: string;
}

export interface DocumentTreeOut {
  document: string;
  version: number | null;
  root: TreeNodeOut | null;
}

export interface DocumentsDeletedOut {
  deletion: string;
  deleted: number;
}

export interface DuplicateOut {
  document_id: string;
  chunk_id: string;
  chunk_index: number;
  source: string;
}

export interface EmbeddingModelOut {
  model: string;
  dimensions: number;
  max_tokens: number;
  multimodal: boolean;
  default: boolean;
  search_defaults: SearchDefaultsOut;
}

export interface EmbeddingOut {
  model: string;
  dimensions: number;
}

export interface EnrichmentSettingsOut {
  enabled: boolean;
  summaries: boolean;
  keywords: boolean;
  entities: boolean;
  relations: boolean;
  context_lines: boolean;
  max_tokens_per_document: number;
  max_tokens_per_day: number;
  model: string | null;
}

export interface EvaluationErrorOut {
  code: string;
  message: string;
}

export interface EvaluationList {
  items: EvaluationOut[];
  next_cursor?: string | null;
  total?: number | null;
  warnings?: WarningOut[];
}

export interface EvaluationOut {
  id: string;
  set: string;
  settings: (Record<string, unknown>)[];
  state: EvaluationState;
  progress: EvaluationProgressOut;
  figures: FigureOut[];
  warnings: WarningOut[];
  error: EvaluationErrorOut | null;
  created_at: string;
  finished_at: string | null;
}

export interface EvaluationProgressOut {
  done: number;
  total: number;
}

export interface EvaluationResultList {
  items: EvaluationResultOut[];
  next_cursor?: string | null;
  total?: number | null;
  warnings?: WarningOut[];
}

export interface EvaluationResultOut {
  item: string;
  query: string | null;
  messages: GoldenItemMessageOut[] | null;
  results: QueryResultOut[];
}

export type EvaluationState = "queued" | "running" | "done" | "failed";

export interface ExplainedIndexOut {
  knowledge_base: string;
  shared: boolean;
  filter: Record<string, unknown> | null;
  plan: QueryPlanOut | null;
  source_queries?: string[] | null;
  dense_weight?: number | null;
  score_threshold?: number | null;
  strategy: string | null;
  strategy_options: Record<string, unknown>;
  queries: string[];
  transformers: string[];
  prompts: Record<string, UsedPromptOut>;
  conversation: boolean;
  combine?: "best" | "sum" | null;
}

export interface ExplanationOut {
  strategy_options: Record<string, unknown>;
  knowledge_bases: ExplainedIndexOut[];
  transformers: string[];
  prompts: Record<string, UsedPromptOut>;
  routing?: RoutingDecisionOut[] | null;
  reformulation?: ReformulationOut | null;
}

export interface ExtractorOut {
  name: string;
  version: string;
}

export interface FigureOut {
  measure: string;
  queries: number;
  values: IntervalOut[];
  difference: DifferenceOut | null;
}

export interface GoldenItemList {
  items: GoldenItemOut[];
  next_cursor?: string | null;
  total?: number | null;
  warnings?: WarningOut[];
}

export interface GoldenItemMessageOut {
  role: string;
  content: string;
}

export interface GoldenItemOut {
  id: string;
  query: string | null;
  messages: GoldenItemMessageOut[] | null;
  relevant: RelevanceOut[];
  created_at: string;
  updated_at: string;
}

export interface GoldenItemsOut {
  items: GoldenItemOut[];
}

export interface GoldenSetList {
  items: GoldenSetOut[];
  next_cursor?: string | null;
  total?: number | null;
  warnings?: WarningOut[];
}

export interface GoldenSetOut {
  id: string;
  name: string;
  description: string | null;
  item_count: number;
  created_at: string;
  updated_at: string;
}

export interface GraphEdgeOut {
  kind: "names" | "relation";
  source: string;
  target: string;
  chunk_id: string;
  predicate: string | null;
  weight: number | null;
}

export interface GraphNodeOut {
  id: string;
  name: string;
  kind: string;
  type: string | null;
}

export interface GraphOut {
  nodes: GraphNodeOut[];
  edges: GraphEdgeOut[];
  text?: string | null;
  paths: Record<string, string[]>;
}

export interface GraphSettingsOut {
  enabled: boolean;
  metadata_keys: string[];
  extractors: string[];
}

export interface HealthOut {
  status: string;
  checks?: Record<string, string>;
}

export interface HttpSourceOut {
  url: string;
  method: "GET" | "POST";
  params: Record<string, string | number>;
  headers: Record<string, string | SecretReference>;
  body: unknown;
  response: HttpSourceResponsePaths;
  domains: string[];
  timeout_seconds: number;
}

export interface HttpSourceResponsePaths {
  items: string;
  text: string;
  title?: string | null;
  url?: string | null;
  score?: string | null;
}

export interface ImageOut {
  type: string;
  url: string;
}

export interface IncludedEntityOut {
  id: string;
  name: string;
  kind: string;
  type: string | null;
  count: number;
}

export interface InitialApiKeyOut {
  id: string;
  role: string;
  key: string;
}

export interface IntervalOut {
  mean: number;
  low: number;
  high: number;
}

export interface JobCountsOut {
  waiting: number;
  oldest_waiting_since: string | null;
  oldest_waiting_seconds: number | null;
  postponed: number;
  running: number;
  failed_24h: number;
}

export interface JobErrorOut {
  code: string;
  message: string | null;
}

export interface JobList {
  items: JobOut[];
  next_cursor?: string | null;
  total?: number | null;
  warnings?: WarningOut[];
}

export interface JobOut {
  id: string;
  tenant: string;
  kind: string;
  state: "waiting" | "postponed" | "scheduled" | "running" | "failed";
  waiting_for: "worker" | "tenant_limit" | "rate_limit" | "embedding_endpoint" | "vision_endpoint" | "object_store" | "retry" | null;
  stage: string | null;
  document: string | null;
  knowledge_base: string | null;
  attempts: number;
  max_attempts: number | null;
  error: JobErrorOut | null;
  created_at: string;
  age_seconds: number;
  due_at: string;
}

export interface JobsRetriedOut {
  retried: number;
  has_more: boolean;
}

export interface KeyUsageOut {
  uploads: number;
  documents: number;
  bytes: number;
  chunks: number;
  searches: number;
  embedding_tokens: number;
  enrichment_calls: number;
  enrichment_tokens: number;
  key: string | null;
  name: string | null;
}

export interface KeywordOut {
  keyword: string;
  score: number;
  method: "extractive" | "model";
}

export interface KnowledgeBaseList {
  items: KnowledgeBaseOut[];
  next_cursor?: string | null;
  total?: number | null;
  warnings?: WarningOut[];
}

export interface KnowledgeBaseOut {
  id: string;
  name: string;
  kind: "documents" | "http" | "agent_search" | "pgvector";
  source?: HttpSourceOut | AgentSearchSourceOut | PgvectorSourceOut | null;
  title: string;
  description: string | null;
  language: string;
  embedding: EmbeddingOut;
  chunking: ChunkingOut;
  retrieval: RetrievalSettingsOut;
  routing: RoutingSettingsOut;
  graph: GraphSettingsOut;
  metadata_filter: Record<string, unknown>;
  pending_metadata_filter: Record<string, unknown> | null;
  enrichment: EnrichmentSettingsOut;
  index: SearchIndexOut;
  reindex: ReindexOut | null;
  rollback_until: string | null;
  document_count: number;
  chunk_count: number;
  created_at: string;
  updated_at: string;
}

export interface LineBoxOut {
  page: number;
  x0: number;
  y0: number;
  x1: number;
  y1: number;
}

export interface LocatorOut {
  page?: number | null;
  page_end?: number | null;
  slide?: number | null;
  lines?: unknown[] | null;
  sheet?: string | null;
  rows?: unknown[] | null;
  section_path?: string[];
  url?: string | null;
}

export interface LossOut {
  counts: Record<string, number>;
  words_left_out: number;
  left_out_share: number;
}

export interface NewApiKeyOut {
  id: string;
  name: string;
  role: string;
  hint: string;
  knowledge_bases: string[] | null;
  user_id: string | null;
  created_at: string;
  expires_at: string | null;
  last_used_at: string | null;
  replaced_by: string | null;
  quotas: ApiKeyQuotas;
  key: string;
}

export interface NewTenantOut {
  id: string;
  name: string;
  created_at: string;
  quotas: TenantQuotasOut;
  sql_views: boolean;
  api_key: InitialApiKeyOut;
}

export interface OcrOut {
  languages: string[];
  missing: string[];
}

export interface PageSizeOut {
  page: number;
  width: number;
  height: number;
}

export interface ParseQualityOut {
  pages: number | null;
  empty_pages: number[];
  suspected_scans: number[];
  garbled_ratio: number;
  tables: number;
  images: number;
  characters: number;
  tokens: number;
}

export interface ParserConfinementOut {
  level: string;
  detail: string | null;
}

export interface ParserOut {
  media_type: string;
  extensions: string[];
}

export interface PgvectorSourceOut {
  type?: "pgvector";
  hostname: string;
  port?: number;
  user: string;
  password?: string | null;
  dbname: string;
  sslmode?: "disable" | "allow" | "prefer" | "require" | "verify-ca" | "verify-full";
  collection: string;
  content_key?: string;
  metadata_filter?: Record<string, unknown>;
  embedding_model: string;
  embedding_dimensions: number;
  top_k?: number;
  prompt?: SourcePrompt | null;
}

export interface PreviewChunkOut {
  chunk_index: number;
  text: string;
  table_head: string | null;
  start: number;
  end: number;
  source_start?: number | null;
  source_end?: number | null;
  tokens: number;
  page: number | null;
  page_end: number | null;
  slide: number | null;
  section_titles: string[];
  node_path: number[];
}

export interface PreviewNodeOut {
  kind: string;
  level: number;
  depth: number;
  title: string | null;
  start: number;
  end: number;
  page: number | null;
  page_end: number | null;
  slide: number | null;
  block: string | null;
  text: string | null;
  children: PreviewNodeOut[];
}

export interface PreviewOut {
  media_type: string;
  title: string | null;
  page_count: number | null;
  warnings: WarningOut[];
  loss: LossOut;
  quality: ParseQualityOut;
  tree: PreviewNodeOut;
  chunks: PreviewChunkOut[];
  total_chunks: number;
  truncated: boolean;
}

export interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
  request_id: string;
  errors?: ({ loc?: (string | number)[]; msg?: string })[];
}

export interface ProvidedEntityOut {
  name: string;
  type: string | null;
  count: number;
}

export interface ProvidedRelationOut {
  subject: string;
  predicate: string;
  object: string;
}

export interface QueryPlanOut {
  chunks: number;
  share: number;
  dense: string;
  lexical: string;
}

export interface QueryResultOut {
  scores: Record<string, number>;
  relevant: RankedRelevanceOut[];
  missing: number;
  warning_codes: string[];
  error: string | null;
}

export interface RankedRelevanceOut {
  document: string;
  chunk: string | null;
  rank: number | null;
}

export interface ReformulationOut {
  query: string;
  analysis: string;
  indices_of_related_messages: number[];
}

export interface ReindexErrorOut {
  code: string;
  message: string;
  document: string | null;
}

export interface ReindexLastErrorOut {
  code: string;
  message: string;
}

export interface ReindexOut {
  state: "building" | "failed";
  done: number;
  total: number;
  embedding: EmbeddingOut;
  chunking: ChunkingOut;
  language: string;
  error: ReindexErrorOut | null;
  last_error: ReindexLastErrorOut | null;
  started_at: string;
}

export interface RelevanceOut {
  document: string;
  chunk: string | null;
  knowledge_base: string | null;
  missing: boolean;
}

export interface ResultDocumentOut {
  id: string | null;
  source: string;
  title: string | null;
  source_uri: string | null;
  source_created_at: string | null;
  metadata: Record<string, unknown>;
}

export interface RetrievalSettingsOut {
  strategy: string;
  top_k: number;
  strategy_options?: Record<string, unknown>;
  transformers?: TransformerConfig[] | null;
  conversation?: boolean;
  combine?: "best" | "sum" | null;
  rewrite_prompt?: string | null;
  answer_prompt?: string | null;
}

export interface RetrieverRankOut {
  query: number;
  retriever: "dense" | "lexical";
  rank: number;
  score: number;
}

export interface RoutingDecisionOut {
  knowledge_base: string;
  chosen: boolean;
  reason: string;
  score: number | null;
  centroids: number | null;
  texts: number | null;
  scale: number;
}

export interface RoutingSettingsOut {
  descriptions: string[];
  examples: string[];
  description_weight: number;
  scale: number;
  always: boolean;
}

export interface ScopeOut {
  level: string;
  user_id: string | null;
  chat_id: string | null;
  agent_id: string | null;
}

export interface ScoresOut {
  dense: number | null;
  lexical: number | null;
  fused: number | null;
}

export interface SearchDefaultsOut {
  dense_weight: number;
  score_threshold: number | null;
  max_tokens: number;
}

export interface SearchIndexOut {
  state: "exact" | "building" | "hnsw";
  reason: string | null;
  size_bytes: number;
  recall: number | null;
  average_length: number;
  analyzer: string;
  action: "reindex" | null;
  problem: string | null;
}

export interface SearchOut {
  results: SearchResultOut[];
  queries: string[];
  strategy: string;
  degraded: DegradedStepOut[];
  warnings: WarningOut[];
  graph?: GraphOut | null;
  auto_thresholds?: AutoThresholdOut[] | null;
  timings_ms: Record<string, number>;
  explain?: ExplanationOut | null;
}

export interface SearchResultOut {
  entities?: IncludedEntityOut[] | null;
  parent_summaries?: SectionSummaryOut[] | null;
  keywords?: KeywordOut[] | null;
  score: number;
  scores: ScoresOut;
  similarity: number | null;
  text: string;
  table_head: string | null;
  start: number;
  end: number;
  source_start?: number | null;
  source_end?: number | null;
  chunk_start: number;
  chunk_end: number;
  chunk_id: string | null;
  chunk_index: number;
  total_chunks: number;
  document: ResultDocumentOut;
  knowledge_base: string;
  page: number | null;
  page_end: number | null;
  slide: number | null;
  section_titles: string[];
  node_path: string[];
  image: ImageOut | null;
  metadata: Record<string, unknown>;
  flags: string[];
  citation: string;
  locator: LocatorOut;
  duplicates?: DuplicateOut[] | null;
  duplicate_count?: number | null;
  vector?: number[] | null;
  ranks?: RetrieverRankOut[] | null;
  path_names?: string[] | null;
}

export interface SecretReference {
  secret: string;
}

export interface SectionSummaryOut {
  node_id: string;
  kind: string;
  title: string | null;
  summary: string;
  method: "extractive" | "model";
}

export interface SerializerOut {
  name: string;
  description: string;
}

export interface SourcePrompt {
  id: string;
  version?: number;
}

export interface StatusOut {
  workers: WorkersOut;
  jobs: JobCountsOut;
  open_circuits: string[];
}

export interface StorageUsageOut {
  documents: number;
  stored_bytes: number;
  chunks: number;
}

export interface TenantDetailOut {
  id: string;
  name: string;
  created_at: string;
  quotas: TenantQuotasOut;
  sql_views: boolean;
}

export interface TenantList {
  items: TenantOut[];
  next_cursor?: string | null;
  total?: number | null;
  warnings?: WarningOut[];
}

export interface TenantOut {
  id: string;
  name: string;
  created_at: string;
}

export interface TenantQuotasOut {
  documents?: number | null;
  stored_bytes?: number | null;
  chunks?: number | null;
  upload_bytes?: number | null;
  embedding_tokens_per_day?: number | null;
  searches_per_second?: number | null;
  concurrent_searches?: number | null;
  event_streams?: number | null;
  concurrent_ingestions?: number | null;
  knowledge_bases?: number | null;
  api_keys?: number | null;
  agents?: number | null;
  prompt_versions?: number | null;
  webhooks?: number | null;
  stored_responses?: number | null;
  sql_views?: number | null;
  files?: number | null;
  file_batches?: number | null;
  batch_files?: number | null;
  chats?: number | null;
  golden_sets?: number | null;
  golden_items?: number | null;
  evaluations?: number | null;
}

export interface TokenUsageOut {
  prompt_tokens: number;
  completion_tokens: number;
}

export interface TransformerConfig {
  name: string;
  options?: Record<string, unknown>;
}

export interface TransformerOut {
  name: string;
  description: string;
  options: Record<string, unknown>;
  default: boolean;
  phase: "rewrite" | "fan_out";
}

export interface TreeNodeOut {
  id: string;
  parent_id: string | null;
  kind: string;
  level: number;
  depth: number;
  title: string | null;
  start: number;
  end: number;
  page: number | null;
  page_end: number | null;
  slide: number | null;
  block: string | null;
  text: string | null;
  children: TreeNodeOut[];
}

export interface UsageOut {
  from: string;
  to: string;
  by: "day" | "key";
  items: DailyUsageOut[] | KeyUsageOut[];
  storage: StorageUsageOut;
}

export interface UsedPromptOut {
  owner: string;
  version: number;
}

export interface WarningOut {
  code: string;
  message: string;
  count?: number | null;
}

export interface WorkersOut {
  alive: number;
  outages: string[];
  restarting: string | null;
  parser_confinement: ParserConfinementOut | null;
}
