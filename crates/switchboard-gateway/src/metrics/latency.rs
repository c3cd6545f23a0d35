//! How long each server's last calls took, for the status page.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use switchboard::sync::lock;

/// How many of a server's last calls count.
const LATENCY_SAMPLES: usize = 256;

/// How long a server's last calls took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Latency {
    /// The median.
    pub p50: Duration,
    /// One in a hundred takes longer.
    pub p99: Duration,
}

/// The last calls of all servers.
#[derive(Debug, Default)]
pub(super) struct Latencies(Mutex<HashMap<String, Arc<ServerLatency>>>);

impl Latencies {
    /// The calls of one server.
    pub(super) fn of_server(&self, server: &str) -> Arc<ServerLatency> {
        let mut latencies = lock(&self.0);
        latencies.entry(server.to_owned()).or_default().clone()
    }

    /// `None` before the first call.
    pub(super) fn of(&self, server: &str) -> Option<Latency> {
        let samples = lock(&self.0).get(server)?.clone();
        lock(&samples.0).latency()
    }
}

/// The last calls of one server.
#[derive(Debug, Default)]
pub(super) struct ServerLatency(Mutex<LatencySamples>);

impl ServerLatency {
    pub(super) fn add(&self, took: Duration) {
        lock(&self.0).add(took);
    }
}

#[derive(Debug, Default)]
struct LatencySamples {
    micros: Vec<u32>,
    next: usize,
}

impl LatencySamples {
    fn add(&mut self, took: Duration) {
        let micros = u32::try_from(took.as_micros()).unwrap_or(u32::MAX);
        match self.micros.get_mut(self.next) {
            Some(oldest) => *oldest = micros,
            None => self.micros.push(micros),
        }
        self.next = (self.next + 1) % LATENCY_SAMPLES;
    }

    fn latency(&self) -> Option<Latency> {
        let mut sorted = self.micros.clone();
        sorted.sort_unstable();
        let at = |percent: usize| {
            let index = (sorted.len() * percent).div_ceil(100).checked_sub(1)?;
            Some(Duration::from_micros(u64::from(*sorted.get(index)?)))
        };
        Some(Latency {
            p50: at(50)?,
            p99: at(99)?,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn latencies_are_those_of_the_last_calls() {
        let latencies = Latencies::default();
        assert_eq!(latencies.of("x"), None);
        for millis in 1..=1000 {
            let server = latencies.of_server("x");
            server.add(Duration::from_millis(millis));
        }
        let samples = latencies.of_server("x");
        assert_eq!(lock(&samples.0).micros.len(), LATENCY_SAMPLES);
        let Latency { p50, p99 } = latencies.of("x").unwrap();
        assert_eq!((p50.as_millis(), p99.as_millis()), (872, 998));
    }
}
