"""The official MCP client as a separate process, which reads its commands line by line."""
