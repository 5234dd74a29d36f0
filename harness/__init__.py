"""Parts that tests, benchmarks and proofs share: protocol servers, process starters, loaders."""
