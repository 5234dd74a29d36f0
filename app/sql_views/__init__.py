"""SQL views: a knowledge base as a view that an agent platform reads, with a login that sees nothing else."""
