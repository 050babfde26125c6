//! Runs one case under a time limit.
//!
//! Cases wait for short ttls to pass, and so can't tell a store that breaks its promise from a machine that
//! stood still for a good part of one. A case that failed while something stood still is run again with
//! longer ttls. A promise that the history shows broken is broken however slow the machine is.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use futures_util::FutureExt;

use crate::canary::Canary;
use crate::case::{Case, Profile};
use crate::context::Context;
use crate::history;
use crate::pace::Pace;
use crate::report::{Outcome, Verdict};
use crate::standstill;
use crate::subject::Subject;

/// Names a folder for the histories of cases that fail.
const HISTORY: &str = "CONFORMANCE_HISTORY";
/// How long a case's clean-up may take beyond its limit.
const CLEAN_UP: Duration = if cfg!(test) { Duration::from_secs(2) } else { Duration::from_secs(15) };

/// How a run of a case ended.
struct Ran {
    verdict: Verdict,
    /// How long the machine or the store stood still, if that may be why the case failed.
    standstill: Option<Duration>,
}

impl Ran {
    const fn decided(verdict: Verdict) -> Self {
        Self { verdict, standstill: None }
    }

    fn failed(reason: impl Into<String>) -> Self {
        Self::decided(Verdict::Failed(reason.into()))
    }
}

/// Runs `case` in a runtime of its own, unless the store does not meet its needs. It neither hangs
/// nor panics, whatever the case does.
pub(crate) fn execute(case: &Case, subject: &Arc<dyn Subject>, seed: u64) -> Outcome {
    let began = Instant::now();
    let verdict = match case.unmet(&Profile::of(&**subject)) {
        Some(reason) => Verdict::Ignored(reason),
        None => decide(case, subject, seed),
    };
    Outcome { id: case.id, since: case.since, verdict, took: began.elapsed(), seed }
}

fn decide(case: &Case, subject: &Arc<dyn Subject>, seed: u64) -> Verdict {
    let mut pace = Pace::USUAL;
    loop {
        let Ran { verdict, standstill } = run(case, subject, seed, pace);
        let (Verdict::Failed(reason), Some(standstill), Some(slower)) = (&verdict, standstill, pace.slower())
        else {
            return verdict;
        };
        eprintln!(
            "{}: undecided, since the machine or the store stood still for {standstill:?}; once more with longer ttls. It said: {reason}",
            case.id
        );
        await_calm(subject, slower);
        pace = slower;
    }
}

fn await_calm(subject: &Arc<dyn Subject>, pace: Pace) {
    // Without a runtime there is nothing to ask the store with: the next run will say so.
    if let Ok(runtime) = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build() {
        runtime.block_on(standstill::over(&**subject, pace.tolerance()));
        runtime.shutdown_timeout(Duration::from_secs(1));
    }
}

fn run(case: &Case, subject: &Arc<dyn Subject>, seed: u64, pace: Pace) -> Ran {
    let limit = case.limit * pace.factor();
    let (done, verdict) = mpsc::channel();
    let (case, subject) = (*case, Arc::clone(subject));
    let thread = std::thread::Builder::new().name(case.id.to_owned()).spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name(case.id)
            .enable_all()
            .build()
            .expect("a runtime can be built");
        let verdict = runtime.block_on(in_runtime(&case, subject, seed, pace));
        // Whoever waited too long for this is gone.
        let _ = done.send(verdict);
        runtime.shutdown_timeout(Duration::from_secs(1));
    });
    if let Err(error) = thread {
        return Ran::failed(format!("can't start a thread: {error}"));
    }
    match verdict.recv_timeout(limit + CLEAN_UP) {
        Ok(ran) => ran,
        Err(RecvTimeoutError::Timeout) => {
            Ran::failed(format!("it blocks its thread and did not end within {:?}", limit + CLEAN_UP))
        }
        Err(RecvTimeoutError::Disconnected) => Ran::failed("its thread died"),
    }
}

async fn in_runtime(case: &Case, subject: Arc<dyn Subject>, seed: u64, pace: Pace) -> Ran {
    let limit = case.limit * pace.factor();
    let canary = Arc::new(Canary::start());
    let stood_still = |context: Option<&Context>| {
        // Who slows the store down on purpose can't tell by its answers.
        let silence = context.filter(|_| !case.stages_faults()).map(Context::longest_silence);
        let longest = canary.worst().max(silence.unwrap_or_default());
        (longest > pace.tolerance()).then_some(longest)
    };
    let context =
        match tokio::time::timeout(limit, Context::new(subject, seed, pace, Arc::clone(&canary))).await {
            Ok(Ok(context)) => context,
            Ok(Err(error)) => {
                let verdict = Verdict::Failed(format!("can't connect to the store: {error}"));
                return Ran { verdict, standstill: stood_still(None) };
            }
            Err(_) => return Ran::failed(format!("connecting to the store took longer than {limit:?}")),
        };
    let ran = AssertUnwindSafe(tokio::time::timeout(limit, (case.run)(&context))).catch_unwind().await;
    let mut faults = Vec::new();
    match ran {
        Ok(Ok(())) => {}
        Ok(Err(_)) => faults.push(format!("it did not end within {limit:?}")),
        Err(panic) => faults.push(text_of(&*panic)),
    }
    if case.alone && tokio::time::timeout(CLEAN_UP / 4, context.heal()).await.is_err() {
        faults.push("its faults did not end".to_owned());
    }
    let mut is_broken = false;
    match tokio::time::timeout(CLEAN_UP / 2, context.finish()).await {
        Ok(violations) => {
            is_broken = !violations.is_empty();
            faults.extend(violations.iter().take(5).map(ToString::to_string));
        }
        Err(_) => faults.push("its clean-up did not end".to_owned()),
    }
    if faults.is_empty() {
        return Ran::decided(Verdict::Passed);
    }
    let standstill = stood_still(Some(&context)).filter(|_| !is_broken);
    if let Some(folder) = std::env::var_os(HISTORY) {
        let name = format!("{}.jsonl", case.id.replace("::", "."));
        match history::save(&context.events(), &Path::new(&folder).join(name)) {
            Ok(path) => faults.push(format!("its history is in {path}")),
            Err(error) => faults.push(format!("its history could not be written: {error}")),
        }
    }
    Ran { verdict: Verdict::Failed(faults.join("\n")), standstill }
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    panic
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_else(|| "it panicked without a message".to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::history::What;
    use crate::subject::tests::Memory;

    fn verdict(mut case: Case) -> Verdict {
        case.limit = Duration::from_millis(300);
        let subject: Arc<dyn Subject> = Arc::new(Memory::default());
        execute(&case, &subject, 1).verdict
    }

    fn reason(case: Case) -> String {
        match verdict(case) {
            Verdict::Failed(reason) => reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_case_passes_when_it_returns() {
        assert_eq!(verdict(Case::new("t::returns", &[], |_| Box::pin(async {}))), Verdict::Passed);
    }

    #[test]
    fn a_case_that_panics_fails_with_its_message() {
        let panics = Case::new("t::panics", &[], |_| Box::pin(async { panic!("so {}", 7) }));
        // Where histories are kept, it ends with where this one is.
        assert_eq!(reason(panics).split("\nits history is in ").next(), Some("so 7"));
    }

    #[test]
    fn a_case_that_hangs_or_blocks_fails() {
        let hangs = Case::new("t::hangs", &[], |_| Box::pin(std::future::pending()));
        assert!(reason(hangs).contains("did not end"));
        let blocks =
            Case::new("t::blocks", &[], |_| Box::pin(async { std::thread::sleep(Duration::from_secs(60)) }));
        assert!(reason(blocks).contains("blocks its thread"));
    }

    #[test]
    fn a_failure_while_the_store_stood_still_is_looked_at_again() {
        static RUNS: AtomicU32 = AtomicU32::new(0);
        let case = Case::new("t::stalled", &[], |ctx| {
            Box::pin(async {
                let run = RUNS.fetch_add(1, Ordering::SeqCst);
                assert_eq!(ctx.brief() > Duration::from_millis(600), run > 0, "ttls grow");
                if run == 0 {
                    let (asked, answered) = (ctx.log().now(), Pace::USUAL.tolerance() * 2);
                    let seen = What::Seen { op: 1, holder: None, token: None, left: None };
                    ctx.log().record_at(asked, "k", "", What::Look { op: 1 });
                    ctx.log().record_at(asked.plus(answered), "k", "", seen);
                    panic!("undecided");
                }
            })
        });
        assert_eq!(verdict(case), Verdict::Passed);
        assert_eq!(RUNS.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn a_broken_promise_in_the_history_fails_a_case_that_noticed_nothing() {
        let broken = Case::new("t::broken", &[], |ctx| {
            Box::pin(async {
                for (op, token, owner) in [(1, 5, "a"), (2, 6, "b")] {
                    let valid_until = ctx.log().now().plus(Duration::from_secs(1)).as_nanos();
                    ctx.log().record("k", owner, What::Granted { op, token, ttl: 1, valid_until });
                }
            })
        });
        assert!(reason(broken).starts_with("H1 `k`"));
    }
}
