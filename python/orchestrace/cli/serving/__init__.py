"""What the command `mcp` serves: tools that only read, confined to one folder."""
