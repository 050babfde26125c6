//! Several processes that want one lock.

use std::process::Stdio;
use std::time::Duration;

use distlock::{BackendInfo, Clock, Error, ErrorKind, Result};
use futures_util::future::try_join_all;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::contender::{ASKED, Answer, Hold, Holding, Job, READY, Report, Shift};
use crate::figures::Figures;
use crate::latency::Latency;
use crate::options::Params;
use crate::pairs::Tally;
use crate::scenario::Scenario;

/// How long starting and connecting, and reporting, may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// From the last one being ready to all starting at once.
const RUN_UP: Duration = Duration::from_millis(100);

/// Starts the contenders, lets them work for the duration, and gathers what they saw.
pub(crate) async fn run(info: &BackendInfo, url: &str, params: Params, prefix: &str) -> Result<Figures> {
    if !info.supports.processes {
        return Err(Error::new(
            ErrorKind::Unsupported,
            format!("`{}` can't be shared by several processes; measure another store", info.name),
        ));
    }
    let job = Job {
        url: url.to_owned(),
        key: format!("{prefix}/0"),
        hold: params.hold,
        think: params.think,
        ttl: params.ttl,
        patience: params.duration + PATIENCE,
        tasks: params.tasks,
        announce: false,
    };
    let mut contenders = try_join_all((0..params.contenders).map(|_| Contender::start(&job))).await?;
    let start = Clock::system().now().plus(RUN_UP);
    let shift = Shift { start: start.as_nanos(), stop: start.plus(params.duration).as_nanos() };
    for contender in &mut contenders {
        contender.say(&shift).await?;
    }
    let limit = params.duration + PATIENCE;
    let reports = try_join_all(contenders.into_iter().map(|contender| contender.report(limit))).await?;
    Ok(figures(info, params, &reports))
}

/// One contender's process; killed when dropped.
#[derive(Debug)]
pub(crate) struct Contender {
    process: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Contender {
    pub(crate) async fn start(job: &Job) -> Result<Self> {
        let program = std::env::current_exe().map_err(|error| broken("find this program", error))?;
        let mut process = Command::new(program)
            .env(ASKED, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| broken("start a contender", error))?;
        let (Some(input), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(Error::new(ErrorKind::Other, "a contender has no pipes"));
        };
        let mut contender = Self { process, input, output: BufReader::new(output).lines() };
        contender.say(job).await?;
        let line = contender.line(PATIENCE).await?;
        if serde_json::from_str::<String>(&line).is_ok_and(|word| word == READY) {
            return Ok(contender);
        }
        match read::<Answer>(&line)? {
            Answer::Failed(error) => {
                Err(Error::new(ErrorKind::Other, format!("a contender failed: {error}")))
            }
            Answer::Worked(_) => Err(Error::new(ErrorKind::Other, "a contender ended before it began")),
        }
    }

    pub(crate) async fn say<T: Serialize + Sync>(&mut self, what: &T) -> Result<()> {
        let mut line = serde_json::to_vec(what).map_err(|error| broken("talk to a contender", error))?;
        line.push(b'\n');
        self.input.write_all(&line).await.map_err(|error| broken("talk to a contender", error))
    }

    /// Waits until it says that it holds the lock, with which token.
    pub(crate) async fn holding(&mut self, limit: Duration) -> Result<u64> {
        let line = self.line(limit).await?;
        serde_json::from_str::<Holding>(&line).map(|holding| holding.token).or_else(|_| match read(&line)? {
            Answer::Failed(error) => {
                Err(Error::new(ErrorKind::Other, format!("a contender failed: {error}")))
            }
            Answer::Worked(_) => {
                Err(Error::new(ErrorKind::Other, "a contender ended before it held the lock"))
            }
        })
    }

    /// Ends it as a crash would: SIGKILL.
    pub(crate) async fn kill(&mut self) -> Result<()> {
        self.process.kill().await.map_err(|error| broken("kill a contender", error))
    }

    async fn report(mut self, limit: Duration) -> Result<Report> {
        let line = self.line(limit).await?;
        match read::<Answer>(&line)? {
            Answer::Worked(report) => Ok(report),
            Answer::Failed(error) => {
                Err(Error::new(ErrorKind::Other, format!("a contender failed: {error}")))
            }
        }
    }

    async fn line(&mut self, limit: Duration) -> Result<String> {
        match timeout(limit, self.output.next_line()).await {
            Ok(Ok(Some(line))) => Ok(line),
            Ok(Ok(None)) => Err(Error::new(
                ErrorKind::Other,
                "a contender said nothing: the program that runs the benchmark must call `contend_if_asked` first thing",
            )),
            Ok(Err(error)) => Err(broken("listen to a contender", error)),
            Err(_) => Err(Error::new(ErrorKind::Other, format!("a contender was silent for {limit:?}"))),
        }
    }
}

fn read<T: DeserializeOwned>(line: &str) -> Result<T> {
    serde_json::from_str(line).map_err(|error| {
        broken("understand a contender; the program must call `contend_if_asked` first thing", error)
    })
}

fn broken(what: &str, error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(ErrorKind::Other, format!("can't {what}")).caused_by(error)
}

fn figures(info: &BackendInfo, params: Params, reports: &[Report]) -> Figures {
    let mut tally = Tally::new(0);
    for report in reports {
        tally.pairs.extend(&report.shares);
        tally.lost += report.lost;
    }
    let mut holds: Vec<(usize, Hold)> = reports
        .iter()
        .enumerate()
        .flat_map(|(process, report)| report.holds.iter().map(move |hold| (process, *hold)))
        .collect();
    holds.sort_by_key(|(_, hold)| hold.granted);
    for (_, hold) in &holds {
        let waited = hold.granted.saturating_sub(hold.called);
        tally.latency.record(Duration::from_nanos(waited + hold.done.saturating_sub(hold.ended)));
    }
    let (across, inside) = hand_offs(&holds);
    tally.hand_off.add(&across);
    tally.hand_off.add(&inside);
    let mut figures = Figures::of(info, Scenario::Processes, params, &tally, params.duration);
    let cpu = reports.iter().map(|report| report.cpu).sum();
    figures.costs(reports.iter().map(|report| report.commands).sum(), cpu);
    figures.rss_kib = reports.iter().filter_map(|report| report.rss_kib).max();
    let holds: Vec<Hold> = holds.into_iter().map(|(_, hold)| hold).collect();
    figures.violations = violations(&holds);
    figures.hand_offs_of_processes(across, &inside);
    figures
}

/// Of holds in the order of their grants, each with the number of its process: the hand-offs from one process to
/// another, and those inside of one, which need no word from the store.
fn hand_offs(holds: &[(usize, Hold)]) -> (Latency, Latency) {
    let (mut across, mut inside) = (Latency::new(), Latency::new());
    for pair in holds.windows(2) {
        let [(from, before), (to, after)] = pair else { continue };
        if after.called < before.ended && before.ended <= after.granted {
            let kind = if from == to { &mut inside } else { &mut across };
            kind.record(Duration::from_nanos(after.granted - before.ended));
        }
    }
    (across, inside)
}

/// Of holds in the order of their grants: how many began before an earlier one had ended, or with a
/// token that was not higher than all before.
fn violations(holds: &[Hold]) -> u64 {
    let (mut violations, mut ended, mut token) = (0, 0, 0);
    for hold in holds {
        violations += u64::from(hold.granted < ended) + u64::from(hold.token <= token);
        ended = ended.max(hold.ended);
        token = token.max(hold.token);
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hold(token: u64, granted: u64, ended: u64) -> Hold {
        Hold { token, called: 0, granted, ended, done: ended }
    }

    #[test]
    fn overlaps_and_old_tokens_are_violations() {
        assert_eq!(violations(&[hold(1, 10, 20), hold(2, 20, 30), hold(5, 31, 40)]), 0);
        assert_eq!(violations(&[hold(1, 10, 20), hold(2, 19, 30)]), 1, "an overlap");
        assert_eq!(violations(&[hold(1, 10, 90), hold(2, 20, 30), hold(3, 40, 50)]), 2, "a long one");
        assert_eq!(violations(&[hold(2, 10, 20), hold(2, 30, 40)]), 1, "the same token");
    }

    #[test]
    fn hand_offs_across_processes_are_told_from_those_inside_of_one() {
        let micros = |token, granted: u64, ended: u64| hold(token, granted * 1000, ended * 1000);
        let holds = [
            (0, micros(1, 1, 10)),
            (0, micros(2, 12, 20)),
            (1, micros(3, 120, 130)),
            (1, micros(4, 132, 140)),
        ];
        let (across, inside) = hand_offs(&holds);
        assert!((across.micros(0.5) - 100.0).abs() < 0.5, "{across:?}");
        assert!((inside.micros(1.0) - 2.0).abs() < 0.5, "{inside:?}");
        let late = Hold { called: 11_000, ..micros(2, 12, 20) };
        let (across, inside) = hand_offs(&[(0, micros(1, 1, 10)), (1, late)]);
        assert!(across.is_empty() && inside.is_empty(), "it did not wait");
    }

    #[tokio::test]
    async fn a_store_inside_the_process_is_refused() {
        let client = distlock::connect("memory:").await.unwrap();
        let params = crate::BenchOptions::new(Scenario::Processes).params().unwrap();
        let error = run(client.info(), "memory:", params, "t").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }
}
