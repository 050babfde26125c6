//! How far a comparison has come, on standard error.

use std::sync::Mutex;
use std::sync::PoisonError;

use distlock_bench::compare::{Contest, Progress};
use indicatif::{ProgressBar, ProgressStyle};

use crate::message;

/// A bar for somebody at a terminal, a line for each contest elsewhere.
#[derive(Debug, Default)]
pub(super) struct Shown(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    bar: Option<ProgressBar>,
    contest: Option<Contest>,
}

impl Shown {
    pub(super) fn show(&self, progress: Progress<'_>) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match progress {
            Progress::Begins { steps } if message::is_watched() => state.bar = Some(bar(steps)),
            Progress::Step { contest, store } => state.step(contest, store),
            Progress::Done => {
                if let Some(bar) = &state.bar {
                    bar.finish_and_clear();
                }
            }
            _ => {}
        }
    }
}

impl State {
    fn step(&mut self, contest: Contest, store: &str) {
        let is_new = self.contest.replace(contest) != Some(contest);
        match &self.bar {
            Some(bar) => {
                bar.set_message(format!("{contest} on {store}"));
                bar.inc(1);
            }
            None if is_new => message::say(&format!("{contest}: {}", contest.about())),
            None => {}
        }
    }
}

fn bar(steps: usize) -> ProgressBar {
    let bar = ProgressBar::new(u64::try_from(steps).unwrap_or(u64::MAX));
    // A template that can't be read leaves the crate's own.
    if let Ok(style) =
        ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed_precise}, {eta} left: {msg}")
    {
        bar.set_style(style);
    }
    bar
}
