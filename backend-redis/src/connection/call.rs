//! One call, whichever server serves it.

use redis::{Cmd, Pipeline, Value};

use super::retry::is_answer_of_changing_places;
use super::single::{Live, Single};
use super::{Failure, Server};

/// One call, which may be sent several times, to several servers.
#[derive(Clone, Copy, Debug)]
pub(super) enum Call<'a> {
    /// A command.
    One(&'a Cmd),
    /// Commands in a row, one of which may make the server wait.
    Aside(&'a Pipeline),
}

impl Call<'_> {
    /// The connection it belongs on.
    pub(super) const fn connection(self, server: &Server) -> &Single {
        match self {
            Self::One(_) => server.commands(),
            Self::Aside(_) => server.aside(),
        }
    }

    /// Sends it; commands in a row give the array of their answers.
    pub(super) async fn send(self, live: &Live) -> Result<Value, Failure> {
        match self {
            Self::One(command) => live.send(command).await,
            Self::Aside(commands) => none_refused(live.send_all(commands).await?),
        }
    }

    /// Sends it to the node that a slot is on its way to, which serves it only behind `ASKING`.
    pub(super) async fn ask(self, live: &Live) -> Result<Value, Failure> {
        let mut asking = redis::pipe();
        asking.cmd("ASKING");
        match self {
            Self::One(command) => {
                asking.add_command(command.clone());
                let answer = live.send_all(&asking).await?.pop().unwrap_or(Value::Nil);
                answer.extract_error().map_err(Failure::after_send)
            }
            Self::Aside(commands) => {
                for command in commands.cmd_iter() {
                    asking.add_command(command.clone());
                }
                let mut answers = live.send_all(&asking).await?;
                answers.drain(..1.min(answers.len()));
                none_refused(answers)
            }
        }
    }
}

/// The answers, one by one.
pub(super) fn answers(value: Value) -> Vec<Value> {
    match value {
        Value::Array(answers) => answers,
        other => vec![other],
    }
}

/// Where the server refused the first command, the others meant nothing.
fn none_refused(answers: Vec<Value>) -> Result<Value, Failure> {
    if let Some(first @ Value::ServerError(_)) = answers.first()
        && let Err(error) = first.clone().extract_error()
        && is_answer_of_changing_places(&error)
    {
        return Err(Failure::after_send(error));
    }
    Ok(Value::Array(answers))
}
