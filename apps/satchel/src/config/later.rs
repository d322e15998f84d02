//! What is declared for parts that come later: `agents`, `tasks`, `mcp`.

use super::reader::Reader;

pub(super) fn read(reader: &mut Reader<'_>) {
    for (key, what) in [("agents", "agents of your own"), ("tasks", "tasks"), ("mcp", "MCP servers")] {
        if reader.declared(key) > 0 {
            reader.not_built(key, what);
        }
    }
}
