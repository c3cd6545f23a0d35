//! The floor, a lower bound: one thread that writes a request and blocks for the response. No correct
//! client is faster with one call in flight.

use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use crate::measure::{ECHO_ARGUMENTS, Era, Fault, median_time};
use crate::raw::Process;

/// One running server and its pipes.
pub(crate) struct Floor {
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    line: Vec<u8>,
    next_id: u64,
    meta: &'static str,
    _process: Process,
}

impl Floor {
    /// Starts a server and initialises the session.
    pub(crate) fn start(mut command: Command, era: Era) -> Result<Self, Fault> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let process = Process(child);
        let (input, output) = pipes.ok_or("the child has no pipes")?;
        let output = BufReader::with_capacity(64 * 1024, output);
        let mut floor = Self {
            input,
            output,
            line: Vec::new(),
            next_id: 0,
            meta: era.meta(),
            _process: process,
        };
        let (method, params) = era.hello();
        floor.request(method, &[params])?;
        if era == Era::Legacy {
            floor
                .input
                .write_all(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n")?;
        }
        Ok(floor)
    }

    /// The median time of `calls` echo calls, in seconds.
    pub(crate) fn one_in_flight(&mut self, calls: usize) -> Result<f64, Fault> {
        let meta = self.meta;
        let mut times = Vec::with_capacity(calls);
        for _ in 0..calls {
            let start = Instant::now();
            self.request(
                "tools/call",
                &[
                    "{\"name\":\"echo\",\"arguments\":",
                    ECHO_ARGUMENTS,
                    meta,
                    "}",
                ],
            )?;
            times.push(start.elapsed());
        }
        Ok(median_time(&mut times))
    }

    fn request(&mut self, method: &str, params: &[&str]) -> Result<(), Fault> {
        let id = self.next_id;
        self.next_id += 1;
        self.line.clear();
        write!(
            self.line,
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":"
        )?;
        params
            .iter()
            .for_each(|piece| self.line.extend_from_slice(piece.as_bytes()));
        self.line.extend_from_slice(b"}\n");
        self.input.write_all(&self.line)?;
        self.line.clear();
        self.output.read_until(b'\n', &mut self.line)?;
        if crate::raw::field(&self.line, b"result").is_none() {
            return Err(format!(
                "{method}: the server answered {:?}",
                String::from_utf8_lossy(&self.line)
            )
            .into());
        }
        Ok(())
    }
}
