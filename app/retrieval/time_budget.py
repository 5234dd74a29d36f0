"""Time limits of the steps of a search: all shares and limits in one place.

A share is a part of the time that remains when the step begins, so unused time of earlier steps is not lost. Even if
each step uses its whole share, the search ends within ``SEARCH`` of the caller's timeout. If time is short, steps are
skipped in this order: rewriting, extra queries, reranker, dense retriever.
"""

# Share of the caller's timeout. The rest is for the network and for a busy machine.
SEARCH = 0.8
# Share of the caller's timeout after which a step that ignores its limit is stopped. An error is useful only while the
# caller still waits.
HARD_LIMIT = 0.87
# Minimum of the hard limit above, in seconds, for any timeout of the caller. A busy machine may need a second.
MIN_BUDGET_SECONDS = 1.0

# Share of the chat model for all transformers together, and its maximum in seconds if the caller did not request them.
# Results are good without the transformers: nDCG@10 of 0.864 instead of 0.918.
REWRITE, MAX_DEFAULT_REWRITE_SECONDS = 0.3, 1.2
# Share of the chat model for the transformers of single knowledge bases, after the common transformers above. All
# knowledge bases of a search are rewritten at the same time.
SOURCE_REWRITE = 0.3
# With less time no model answers, and its circuit breaker would count one more failure.
MIN_REWRITE_SECONDS = 0.05
# Share of a transformer's first search. The chat model needs the rest to read the chunks.
PREVIEW_SEARCH = 0.5
# With less time left, extra queries are skipped. Each query costs the retrievers as much time as the first one.
MIN_EXTRA_QUERIES_SECONDS = 0.2

# Share of the embedding model, also for routing. The retrievers need the rest, and may need a second attempt.
EMBED = 0.5
# With less time left, routing is skipped, so that the search itself has the time.
MIN_ROUTE_SECONDS = 0.3
# Shares of the first attempt with both retrievers, of each retriever alone without extra queries, and of the loading of
# hits.
RETRIEVERS_COMBINED, RETRIEVERS_SEPARATE, READING = 0.5, 0.4, 1.0
# Share of the walk in the graph. The rest is for the loading of hits.
GRAPH_WALK = 0.5
# With less time left, there is no second pass if too few rows have become hits.
MIN_SECOND_PASS_SECONDS = 0.2
# Minimum seconds for the database. A lower limit would fail every search on a busy machine.
MIN_DATABASE_SECONDS = 0.1
# Maximum database seconds of the retrievers in one search, for any timeout of the caller.
MAX_DATABASE_SECONDS = 10.0
# Seconds beyond its limit after which the process stops waiting for the database.
DATABASE_GRACE_SECONDS = 0.1

# Share of the HTTP sources, which run at the same time as the retrievers.
HTTP_SOURCES = 0.8
# Share of a plugin's strategy. The rest is for the hybrid search that replaces a failed one.
PLUGIN_STRATEGY = 0.6

# Share of each include of hits, which are loaded last, and the minimum seconds to load one.
INCLUDE, MIN_INCLUDE_SECONDS = 0.6, 0.02

# Share of the reranker, and the minimum seconds to call it. It is the last step, and the rest is for the response.
RERANK, MIN_RERANK_SECONDS = 0.8, 0.8
