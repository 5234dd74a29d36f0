"""HTTP sources: external search services behind knowledge bases of kind http, limited by an allowlist."""
