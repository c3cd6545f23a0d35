//! A [`Host`](switchboard::Host) offered to MCP clients as one MCP server.
