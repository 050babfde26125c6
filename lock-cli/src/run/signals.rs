//! Signals that the wrapper receives.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use rustix::process::Signal;
use tokio::runtime::Runtime;
use tokio::signal::unix::{self, SignalKind};

use super::{orphans, procfs};

/// Signals that mean the command, not the wrapper.
const FORWARDED: [Signal; 7] =
    [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2, Signal::WINCH];

/// The signals the wrapper acts on, as they come.
///
/// A signal that was ignored when the program started stays ignored, for the command too: `nohup`
/// and background jobs of simple shells count on it.
#[derive(Debug)]
pub(crate) struct Signals {
    streams: Vec<(Signal, unix::Signal)>,
}

impl Signals {
    /// From now on the signals arrive here instead of ending the process. Needs a tokio runtime.
    pub(crate) fn listen() -> io::Result<Self> {
        let streams = procfs::not_ignored(&FORWARDED)
            .into_iter()
            .chain([Signal::CONT, Signal::CHILD])
            .map(|signal| Ok((signal, unix::signal(SignalKind::from_raw(signal.as_raw()))?)))
            .collect::<io::Result<_>>()?;
        Ok(Self { streams })
    }

    /// The next signal. Several of the same kind may arrive as one.
    pub(crate) async fn next(&mut self) -> Signal {
        poll_fn(|context| {
            for (signal, stream) in &mut self.streams {
                if stream.poll_recv(context) == Poll::Ready(Some(())) {
                    return Poll::Ready(*signal);
                }
            }
            Poll::Pending
        })
        .await
    }
}

/// Makes this process survive every signal that can be survived, for as long as the result lives.
pub(super) fn deafen() -> io::Result<Runtime> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let inside = runtime.enter();
    for signal in FORWARDED.into_iter().chain([Signal::ALARM, Signal::PIPE]) {
        // The stream may go; the handler stays.
        drop(unix::signal(SignalKind::from_raw(signal.as_raw()))?);
    }
    drop(inside);
    Ok(runtime)
}

/// The next signal that asks to end. Process 1 reaps orphans meanwhile.
pub(crate) async fn asked_to_end(signals: &mut Signals) -> Signal {
    loop {
        match signals.next().await {
            signal if asks_to_end(signal) => return signal,
            Signal::CHILD => orphans::reap(&[]),
            _ => {}
        }
    }
}

/// Whether a signal asks the command to end.
pub(crate) fn asks_to_end(signal: Signal) -> bool {
    [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT].contains(&signal)
}
