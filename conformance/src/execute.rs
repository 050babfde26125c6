//! Runs one case under a time limit.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use futures_util::FutureExt;

use crate::case::{Case, Profile};
use crate::context::Context;
use crate::history;
use crate::report::{Outcome, Verdict};
use crate::subject::Subject;

/// Names a folder for the histories of cases that fail.
const HISTORY: &str = "CONFORMANCE_HISTORY";
/// How long a case's clean-up may take beyond its limit.
const CLEAN_UP: Duration = if cfg!(test) { Duration::from_secs(2) } else { Duration::from_secs(15) };

/// Runs `case` in a runtime of its own, unless the store does not meet its needs. It neither hangs
/// nor panics, whatever the case does.
pub(crate) fn execute(case: &Case, subject: &Arc<dyn Subject>, seed: u64) -> Outcome {
    let began = Instant::now();
    let verdict = match case.unmet(&Profile::of(&**subject)) {
        Some(reason) => Verdict::Ignored(reason),
        None => run(case, subject, seed),
    };
    Outcome { id: case.id, since: case.since, verdict, took: began.elapsed(), seed }
}

fn run(case: &Case, subject: &Arc<dyn Subject>, seed: u64) -> Verdict {
    let (done, verdict) = mpsc::channel();
    let (case, subject) = (*case, Arc::clone(subject));
    let thread = std::thread::Builder::new().name(case.id.to_owned()).spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name(case.id)
            .enable_all()
            .build()
            .expect("a runtime can be built");
        let verdict = runtime.block_on(in_runtime(&case, subject, seed));
        // Whoever waited too long for this is gone.
        let _ = done.send(verdict);
        runtime.shutdown_timeout(Duration::from_secs(1));
    });
    if let Err(error) = thread {
        return Verdict::Failed(format!("can't start a thread: {error}"));
    }
    match verdict.recv_timeout(case.limit + CLEAN_UP) {
        Ok(verdict) => verdict,
        Err(RecvTimeoutError::Timeout) => Verdict::Failed(format!(
            "it blocks its thread and did not end within {:?}",
            case.limit + CLEAN_UP
        )),
        Err(RecvTimeoutError::Disconnected) => Verdict::Failed("its thread died".to_owned()),
    }
}

async fn in_runtime(case: &Case, subject: Arc<dyn Subject>, seed: u64) -> Verdict {
    let context = match tokio::time::timeout(case.limit, Context::new(subject, seed)).await {
        Ok(Ok(context)) => context,
        Ok(Err(error)) => return Verdict::Failed(format!("can't connect to the store: {error}")),
        Err(_) => {
            return Verdict::Failed(format!("connecting to the store took longer than {:?}", case.limit));
        }
    };
    let ran = AssertUnwindSafe(tokio::time::timeout(case.limit, (case.run)(&context))).catch_unwind().await;
    let mut faults = Vec::new();
    match ran {
        Ok(Ok(())) => {}
        Ok(Err(_)) => faults.push(format!("it did not end within {:?}", case.limit)),
        Err(panic) => faults.push(text_of(&*panic)),
    }
    if case.alone && tokio::time::timeout(CLEAN_UP / 4, context.heal()).await.is_err() {
        faults.push("its faults did not end".to_owned());
    }
    match tokio::time::timeout(CLEAN_UP / 2, context.finish()).await {
        Ok(violations) => faults.extend(violations.iter().take(5).map(ToString::to_string)),
        Err(_) => faults.push("its clean-up did not end".to_owned()),
    }
    if faults.is_empty() {
        return Verdict::Passed;
    }
    if let Some(folder) = std::env::var_os(HISTORY) {
        let name = format!("{}.jsonl", case.id.replace("::", "."));
        match history::save(&context.events(), &Path::new(&folder).join(name)) {
            Ok(path) => faults.push(format!("its history is in {path}")),
            Err(error) => faults.push(format!("its history could not be written: {error}")),
        }
    }
    Verdict::Failed(faults.join("\n"))
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
        assert_eq!(reason(Case::new("t::panics", &[], |_| Box::pin(async { panic!("so {}", 7) }))), "so 7");
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
