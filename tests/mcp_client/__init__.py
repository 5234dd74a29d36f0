"""The official MCP client in a process of its own, told what to do line by line."""
