//! Following the Sentinels.

use std::sync::Arc;
use std::time::Duration;

use redis::{RedisError, RedisResult};
use tokio::sync::Notify;

use super::panel::{News, Verdict};
use super::{Master, State, View};
use crate::connection::open::is_master;
use crate::connection::{Failure, Opener, Server, timed_out, within};

/// How often the Sentinels are asked although nothing is wrong and nothing was announced.
const WELL: Duration = Duration::from_secs(5);
/// How often they are asked while there is no master.
const UNWELL: Duration = Duration::from_millis(100);

/// Keeps the view true until the link is closed.
pub(super) async fn keep(state: &Arc<State>) {
    let news = News { bell: state.keeper.bell(), told: Arc::new(Notify::new()) };
    let mut last = None::<Arc<Master>>;
    while !matches!(*state.view.borrow(), View::Closed) {
        let (view, rest) = match look(state, last.as_ref(), &news).await {
            Ok(master) => {
                last = Some(Arc::clone(&master));
                (View::Master(master), WELL)
            }
            Err(error) => (View::Seeking(Some(error)), UNWELL),
        };
        state.view.send_if_modified(|now| {
            // Closing is for good.
            let is_open = !matches!(now, View::Closed);
            if is_open {
                *now = view;
            }
            is_open
        });
        state.keeper.rest(rest).await;
    }
    state.panel.lock().await.leave();
}

/// Asks the Sentinels, and then the master itself.
async fn look(state: &State, last: Option<&Arc<Master>>, news: &News) -> RedisResult<Arc<Master>> {
    let verdict = state.panel.lock().await.ask(news).await;
    let master = match (verdict, last) {
        (Ok(verdict), Some(last)) if last.address == verdict.address && last.epoch == verdict.epoch => {
            Arc::clone(last)
        }
        (Ok(verdict), _) => Arc::new(named(state, verdict)?),
        // Locks go on without the Sentinels, as long as the master does.
        (Err(_), Some(last)) => Arc::clone(last),
        (Err(error), None) => return Err(error),
    };
    tokio::select! {
        checked = within(state.config.connect_timeout, check(&master)) => {
            checked.unwrap_or_else(|| Err(timed_out()))?;
        }
        // A master that is silent must not delay the news of the next one.
        () = news.told.notified() => return Err(Failure::taken_over().error),
    }
    Ok(master)
}

fn named(state: &State, verdict: Verdict) -> RedisResult<Master> {
    let opener = Opener::new(&state.config, &verdict.address).map_err(|_| {
        RedisError::from(std::io::Error::other("the Sentinels name an address that can't be read"))
    })?;
    let server = Server::new(opener.of_a_master());
    Ok(Master { address: verdict.address, epoch: verdict.epoch, server })
}

/// A new connection is refused by who is no master; one that is open may have outlived that.
async fn check(master: &Master) -> RedisResult<()> {
    let live = master.server.commands().ready().await.map_err(|failure| failure.error)?;
    let role = live.send(&redis::cmd("ROLE")).await.map_err(|failure| failure.error)?;
    is_master(&role)
}
