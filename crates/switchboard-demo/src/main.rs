//! The demo server as a program of its own: `switchboard-demo [options]`, MCP on stdin and stdout,
//! or with `--http ADDR` on HTTP.

use std::process::ExitCode;

fn main() -> ExitCode {
    switchboard_demo::main_stdio(std::env::args().skip(1))
}
