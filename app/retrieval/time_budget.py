"""What each step of a search may take of its time: every share and every limit in one place.

Shares are of what is left when the step begins, so that nothing is lost that an earlier step did not need; though each
step uses up all it has, the search ends in ``SEARCH`` of its caller's budget. What is given up first stands first: the
rewrite, the extra queries, the reranker, the dense lane.
"""

# Of the caller's budget: the rest is for the way here and back, and for a machine that is busy.
SEARCH = 0.8
# The last resort, for a step that does not keep to its limit: an error is of use only to who still waits.
HARD_LIMIT = 0.87
# The least that the last resort leaves, however little the caller gives: a second is what a busy machine may need.
MIN_BUDGET_SECONDS = 1.0

# The chat model, for all transformers together, and no more than so many seconds where nobody has asked for them: what
# is had without it is good (0.864 instead of 0.918, docs/concepts/search-pipeline.md).
REWRITE, MAX_DEFAULT_REWRITE_SECONDS = 0.3, 1.2
# With less no model answers, and its circuit breaker would count one more failure.
MIN_REWRITE_SECONDS = 0.05
# The first search of a transformer that wants to see what there is: the model needs the rest to read it.
PREVIEW_SEARCH = 0.5
# With less left when they are there, only what was asked is searched for: each query costs the lanes as much again.
MIN_EXTRA_QUERIES_SECONDS = 0.2

# The embedding model, for routing too: the lanes need theirs, and perhaps a second try.
EMBED = 0.5
# With less left a query is not embedded to choose knowledge bases: what is left is for the search itself.
MIN_ROUTE_SECONDS = 0.3
# The first try of both lanes, then each lane by itself, without the extra queries; reading has what is left.
RETRIEVERS_COMBINED, RETRIEVERS_SEPARATE, READING = 0.5, 0.4, 1.0
# With less left the lanes are not asked for more rows, where too few of the first have become hits.
MIN_SECOND_PASS_SECONDS = 0.2
# However little is left, the database gets this long: less would fail every search on a busy machine.
MIN_DATABASE_SECONDS = 0.1
# The most that the lanes of one search get of the database, however much time its caller gives.
MAX_DATABASE_SECONDS = 10.0
# How much longer than its own limit the database may take before it is left alone.
DATABASE_GRACE_SECONDS = 0.1

# HTTP sources, which are asked beside the lanes.
HTTP_SOURCES = 0.8
# A plugin's strategy: what follows is for the search in its place.
PLUGIN_STRATEGY = 0.6

# The reranker, the last to be asked: the rest is for the way back. With less than so many seconds left it is not asked.
RERANK, MIN_RERANK_SECONDS = 0.8, 0.8
