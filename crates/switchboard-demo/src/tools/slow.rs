//! Tools that take time: `slow` reports progress and can be cancelled, `hang_up` drops its
//! connection.

use std::time::Duration;

use serde::Deserialize;
use tokio::time::Instant;

use crate::exchange::{Call, Cancellation, Exchange, Outcome};
use crate::rpc::Body;

/// The longest call.
const LIMIT_SECONDS: f64 = 3600.0;

#[derive(Debug, Deserialize)]
#[serde(default)]
struct Arguments {
    seconds: f64,
    steps: u32,
}

impl Default for Arguments {
    fn default() -> Self {
        Self {
            seconds: 1.0,
            steps: 5,
        }
    }
}

pub(super) fn slow(call: &Call<'_>) -> Outcome {
    let arguments: Arguments = match call.arguments() {
        Ok(arguments) => arguments,
        Err(failure) => return Outcome::Done(failure),
    };
    if !(0.0..=LIMIT_SECONDS).contains(&arguments.seconds) {
        return Outcome::Done(Body::from_failure(format!(
            "seconds must be from 0 to {LIMIT_SECONDS}"
        )));
    }
    if arguments.steps == 0 {
        return Outcome::Done(Body::from_failure("steps must be at least 1"));
    }
    let mut exchange = call.detach();
    // It ends by itself, by cancellation, or with its connection, which stops what it started.
    tokio::spawn(async move {
        match work(&mut exchange, &arguments).await {
            Ok(body) => exchange.finish(&body),
            Err(stopped) => exchange.abandon(&stopped),
        }
    });
    Outcome::Later
}

/// Drops the connection that would carry the answer, and answers later.
pub(crate) fn hang_up(call: &Call<'_>) -> Outcome {
    #[derive(Deserialize)]
    #[serde(default)]
    struct Pause {
        seconds: f64,
    }
    impl Default for Pause {
        fn default() -> Self {
            Self { seconds: 0.1 }
        }
    }
    let seconds = match call.arguments() {
        Ok(Pause { seconds }) if (0.0..=LIMIT_SECONDS).contains(&seconds) => seconds,
        Ok(_) => {
            return Outcome::Done(Body::from_failure(format!(
                "seconds must be from 0 to {LIMIT_SECONDS}"
            )));
        }
        Err(failure) => return Outcome::Done(failure),
    };
    let mut exchange = call.detach();
    exchange.hang_up();
    // It ends by itself, by cancellation, or with its connection, which stops what it started.
    tokio::spawn(async move {
        tokio::select! {
            biased;
            stopped = exchange.stopped() => exchange.abandon(&stopped),
            () = tokio::time::sleep(Duration::from_secs_f64(seconds)) => {
                exchange.finish(&Body::from_message("answered after hanging up"));
            }
        }
    });
    Outcome::Later
}

async fn work(exchange: &mut Exchange, arguments: &Arguments) -> Result<Body, Cancellation> {
    let Arguments { seconds, steps } = *arguments;
    let begin = Instant::now();
    for step in 1..=steps {
        // Measured from the beginning, so that many short steps do not add up to more.
        let until = begin + Duration::from_secs_f64(seconds * f64::from(step) / f64::from(steps));
        tokio::select! {
            biased;
            stopped = exchange.stopped() => return Err(stopped),
            () = tokio::time::sleep_until(until) => {}
        }
        exchange.progress(
            step.into(),
            steps.into(),
            &format!("step {step} of {steps}"),
        );
    }
    Ok(Body::from_message(format!(
        "worked for {seconds} s in {steps} steps"
    )))
}
