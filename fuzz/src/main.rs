//! Runs one fuzz target on mutated inputs. The input of each round is determined by the seed and
//! the round's number.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use targets::{TARGETS, Target};

/// Makes inputs from seeds.
mod mutate;
/// One file for each target.
mod targets;

const USAGE: &str = "switchboard-fuzz TARGET [--seconds N] [--seed N] [--round N]\n\
                     switchboard-fuzz TARGET --replay FILE\n\
                     switchboard-fuzz --list";

/// The time limit of one input.
const MAX_ROUND_TIME: Duration = Duration::from_secs(20);

/// The number of the current round, for the thread that enforces the time limit.
static ROUND: AtomicU64 = AtomicU64::new(0);

struct Arguments {
    target: &'static Target,
    seconds: u64,
    seed: u64,
    /// Only this round.
    round: Option<u64>,
    replay: Option<PathBuf>,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words == ["--list"] {
        TARGETS
            .iter()
            .for_each(|target| println!("{}", target.name));
        return ExitCode::SUCCESS;
    }
    match arguments(&words) {
        Ok(arguments) => run(&arguments),
        Err(fault) => {
            eprintln!("{fault}\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn arguments(words: &[String]) -> Result<Arguments, String> {
    let (name, options) = words.split_first().ok_or("which target?")?;
    let target = TARGETS
        .iter()
        .find(|target| target.name == *name)
        .ok_or_else(|| format!("no target {name:?}"))?;
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |now| now.as_secs());
    let mut arguments = Arguments {
        target,
        seconds: 15,
        seed: now,
        round: None,
        replay: None,
    };
    for option in options.chunks(2) {
        let [option, value] = option else {
            return Err(format!("{} needs a value", option[0]));
        };
        let number = || {
            value
                .parse()
                .map_err(|_| format!("{option} needs a number"))
        };
        match option.as_str() {
            "--seconds" => arguments.seconds = number()?,
            "--seed" => arguments.seed = number()?,
            "--round" => arguments.round = Some(number()?),
            "--replay" => arguments.replay = Some(value.into()),
            _ => return Err(format!("no option {option:?}")),
        }
    }
    Ok(arguments)
}

fn run(arguments: &Arguments) -> ExitCode {
    let Arguments {
        target,
        seconds,
        seed,
        round,
        replay,
    } = arguments;
    if let Some(file) = replay {
        return match std::fs::read(file) {
            Ok(input) => {
                (target.check)(&input);
                println!("{}: passed", target.name);
                ExitCode::SUCCESS
            }
            Err(fault) => {
                eprintln!("{}: {fault}", file.display());
                ExitCode::from(2)
            }
        };
    }
    println!("{}: seed {seed}", target.name);
    let _reporter = Reporter {
        target,
        seed: *seed,
    };
    let (target, seed): (&'static Target, _) = (target, *seed);
    let name = target.name;
    std::thread::spawn(move || watch_time(target, seed));
    let ends = Instant::now() + Duration::from_secs(*seconds);
    let (first, last) = round.map_or((0, u64::MAX), |round| (round, round));
    let mut rounds = 0;
    for round in first..=last {
        if Instant::now() >= ends {
            break;
        }
        ROUND.store(round, Ordering::Relaxed);
        (target.check)(&mutate::input(target, seed, round));
        rounds += 1;
    }
    println!("{name}: {rounds} inputs passed");
    // A run without a single input is a failure.
    if rounds == 0 {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

/// Prints how to repeat the round in which a target panicked.
struct Reporter {
    target: &'static Target,
    seed: u64,
}

impl Drop for Reporter {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let round = ROUND.load(Ordering::Relaxed);
            let input = mutate::input(self.target, self.seed, round);
            eprintln!(
                "{}: failed on {:?}",
                self.target.name,
                String::from_utf8_lossy(&input[..input.len().min(2000)])
            );
            print_repetition(self.target, self.seed, round);
        }
    }
}

/// Keeps the input of a round in a file, and prints how to repeat it.
fn print_repetition(target: &Target, seed: u64, round: u64) {
    let name = target.name;
    let file = std::env::temp_dir().join(format!("fuzz-{name}-{seed}-{round}"));
    eprintln!("repeat it: switchboard-fuzz {name} --seed {seed} --round {round}");
    if std::fs::write(&file, mutate::input(target, seed, round)).is_ok() {
        eprintln!(
            "       or: switchboard-fuzz {name} --replay {}",
            file.display()
        );
    }
}

/// Ends the program if one round takes too long.
fn watch_time(target: &Target, seed: u64) {
    let (mut seen, mut since) = (u64::MAX, Instant::now());
    loop {
        std::thread::sleep(Duration::from_millis(500));
        let round = ROUND.load(Ordering::Relaxed);
        if round != seen {
            (seen, since) = (round, Instant::now());
        } else if since.elapsed() > MAX_ROUND_TIME {
            let name = target.name;
            eprintln!("{name}: one input took longer than {MAX_ROUND_TIME:?}");
            print_repetition(target, seed, round);
            std::process::exit(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seeds, and a few rounds that are always the same.
    #[test]
    fn every_target_passes_on_its_seeds_and_on_the_first_rounds() {
        for target in TARGETS {
            assert!(!target.seeds.is_empty(), "{}", target.name);
            target
                .seeds
                .iter()
                .for_each(|seed| (target.check)(seed.as_bytes()));
            (0..50).for_each(|round| (target.check)(&mutate::input(target, 1, round)));
        }
    }

    #[test]
    fn an_input_follows_from_its_seed_and_round() {
        let made = |seed, round| mutate::input(&TARGETS[0], seed, round);
        assert_eq!(made(7, 3), made(7, 3));
        assert_ne!(
            (0..20).map(|round| made(7, round)).collect::<Vec<_>>(),
            (0..20).map(|round| made(8, round)).collect::<Vec<_>>()
        );
    }
}
