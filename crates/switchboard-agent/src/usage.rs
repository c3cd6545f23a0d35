//! Tokens that a turn used, in one meaning for all vendors.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

/// Tokens of one or several turns. Counts that the vendor does not report are `None`, never zero.
///
/// Vendors count differently: Anthropic leaves cached tokens out of its input, the others count
/// them in; Gemini leaves thoughts out of its output. Here input is without the cache, and output
/// is with the reasoning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct TokenUsage {
    /// Input that was neither read from the cache nor written to it.
    pub input: Option<u64>,
    /// Input that was read from the cache.
    pub cache_read: Option<u64>,
    /// Input that was written to the cache, where the vendor charges for that.
    pub cache_write: Option<u64>,
    /// Output, reasoning included.
    pub output: Option<u64>,
    /// The reasoning in the output.
    pub reasoning: Option<u64>,
    /// The charge that the vendor reports, in US dollars.
    pub charged_usd: Option<f64>,
}

impl TokenUsage {
    /// All input together: what fills the context, without the answer.
    pub fn total_input(&self) -> Option<u64> {
        let read = self.cache_read.unwrap_or(0);
        let cached = read.saturating_add(self.cache_write.unwrap_or(0));
        self.input.map(|input| input.saturating_add(cached))
    }

    /// Whether the vendor reported nothing.
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }

    /// From counts in which cached tokens are part of the input.
    pub(crate) fn with_cache_inside(input: Option<u64>, cache_read: Option<u64>) -> Self {
        Self {
            input: input.map(|input| input.saturating_sub(cache_read.unwrap_or(0))),
            cache_read,
            ..Self::default()
        }
    }
}

impl AddAssign for TokenUsage {
    fn add_assign(&mut self, other: Self) {
        let add = |sum: &mut Option<u64>, value: Option<u64>| {
            if let Some(value) = value {
                *sum = Some(sum.unwrap_or(0).saturating_add(value));
            }
        };
        add(&mut self.input, other.input);
        add(&mut self.cache_read, other.cache_read);
        add(&mut self.cache_write, other.cache_write);
        add(&mut self.output, other.output);
        add(&mut self.reasoning, other.reasoning);
        if let Some(charged) = other.charged_usd {
            self.charged_usd = Some(self.charged_usd.unwrap_or(0.0) + charged);
        }
    }
}

/// How many bytes of a request are one token. Vendors count differently, so it is corrected by
/// what they report.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TokenEstimate {
    bytes_per_token: f64,
}

impl Default for TokenEstimate {
    fn default() -> Self {
        Self {
            bytes_per_token: 4.0,
        }
    }
}

impl TokenEstimate {
    /// Corrects the estimate by a request whose tokens the vendor reported.
    pub fn calibrate(&mut self, request_bytes: usize, usage: &TokenUsage) {
        if let Some(tokens) = usage.total_input().filter(|tokens| *tokens >= 100) {
            let measured = request_bytes as f64 / tokens as f64;
            // Limits outliers, caused by images and by system prompts of the vendor.
            self.bytes_per_token = measured.clamp(1.5, 8.0);
        }
    }

    /// The tokens of so many bytes.
    pub fn tokens(&self, bytes: usize) -> u64 {
        (bytes as f64 / self.bytes_per_token).ceil() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_stays_unknown_in_a_sum() {
        let mut sum = TokenUsage::default();
        sum += TokenUsage::default();
        assert!(sum.is_unknown());
        sum += TokenUsage::with_cache_inside(Some(100), Some(40));
        sum += TokenUsage {
            output: Some(7),
            ..TokenUsage::default()
        };
        assert_eq!((sum.input, sum.cache_read), (Some(60), Some(40)));
        assert_eq!((sum.output, sum.cache_write), (Some(7), None));
        assert_eq!(sum.total_input(), Some(100));
    }

    #[test]
    fn the_estimate_follows_what_the_vendor_counts() {
        let mut estimate = TokenEstimate::default();
        assert_eq!(estimate.tokens(400), 100);
        let usage = |input| TokenUsage {
            input,
            ..TokenUsage::default()
        };
        estimate.calibrate(3000, &usage(Some(1000)));
        assert_eq!(estimate.tokens(300), 100);
        estimate.calibrate(1_000_000, &usage(Some(1000)));
        assert_eq!(estimate.tokens(800), 100);
        estimate.calibrate(1, &usage(None));
        assert_eq!(estimate.tokens(800), 100);
    }
}
