//! The store, the clients, the network and the time, as a state machine.

use stateright::{Model, Property};

use crate::client::{Client, Phase};
use crate::flaw::Flaw;
use crate::properties;
use crate::store::{Answer, Request, Store};

/// What is explored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct World {
    pub(crate) flaw: Flaw,
    pub(crate) clients: u8,
    /// Ticks from a grant to its end in the store.
    pub(crate) ttl: u8,
    /// Whether records end by themselves. Otherwise they stay until they are released, as those of a session do.
    pub(crate) expires: bool,
    /// How often a client repeats its attempt, and how often it renews.
    pub(crate) repeats: u8,
    pub(crate) renewals: u8,
    /// How many messages are delivered twice.
    pub(crate) doubles: u8,
    /// By how many ticks the store's clock gains on the clients'.
    pub(crate) gain: u8,
    /// Whether holders write to a resource.
    pub(crate) writes: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Message {
    Request { owner: u8, number: u8, request: Request },
    Answer { owner: u8, number: u8, answer: Answer },
}

/// The resource that the lock protects. It refuses tokens below the highest that it has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Resource {
    pub(crate) token: u8,
    pub(crate) grant: u8,
}

/// What a step did that no step may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Wrong {
    /// A renewal or release changed what another owner holds.
    TouchedAnother,
    /// A renewal made a record.
    Recreated,
    /// A grant came with a token that is not above all before.
    TokenNotHigher,
    /// The resource took a write of an older grant after one of a later grant.
    StaleWriteAccepted,
    /// A claim that had been given up was renewed.
    RenewedAfterwards,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) store: Store,
    pub(crate) highest: u8,
    pub(crate) clients: Vec<Client>,
    /// In order, for lack of any order in the network.
    pub(crate) flying: Vec<Message>,
    pub(crate) doubles: u8,
    pub(crate) gain: u8,
    pub(crate) resource: Resource,
    pub(crate) wrong: Option<Wrong>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Ask(usize),
    Renew(usize),
    GiveUp(usize),
    Sweep(usize),
    /// A holder finds its lock valid, and writes later.
    Look(usize),
    Write(usize),
    /// A message arrives, at any time and in any order.
    Deliver(usize),
    /// A message arrives, and will do so again.
    DeliverTwice(usize),
    Lose(usize),
    Tick,
    StoreGains,
}

impl State {
    fn send(&mut self, client: usize, request: Request) {
        let number = self.clients[client].send();
        self.fly(Message::Request { owner: number_of(client), number, request });
    }

    fn fly(&mut self, message: Message) {
        if let Err(at) = self.flying.binary_search(&message) {
            self.flying.insert(at, message);
        }
    }

    /// Whether anything of the client's requests is on its way.
    pub(crate) fn awaits(&self, client: usize) -> bool {
        self.flying.iter().any(|message| message.owner() == number_of(client))
    }
}

impl Message {
    pub(crate) fn owner(&self) -> u8 {
        match self {
            Self::Request { owner, .. } | Self::Answer { owner, .. } => *owner,
        }
    }

    /// The same of another owner.
    pub(crate) fn of(self, owner: u8) -> Self {
        match self {
            Self::Request { number, request, .. } => Self::Request { owner, number, request },
            Self::Answer { number, answer, .. } => Self::Answer { owner, number, answer },
        }
    }
}

fn number_of(client: usize) -> u8 {
    u8::try_from(client).expect("there are few")
}

impl World {
    /// How long after the request a client relies on the store's answer.
    fn validity(&self) -> u8 {
        if self.flaw == Flaw::NoMargin { self.ttl } else { self.ttl - self.gain }
    }

    fn give_up(&self, state: &mut State, client: usize) {
        let owner = number_of(client);
        // Whatever is answered now, nobody reads.
        state.flying.retain(|message| !matches!(message, Message::Answer { owner: of, .. } if *of == owner));
        let doubtful = state.awaits(client);
        state.send(client, Request::Unlock);
        let phase = if self.expires { Phase::Gone } else { Phase::Leaving { doubtful } };
        state.clients[client].leave(phase);
    }

    fn serve(&self, state: &mut State, owner: u8, number: u8, request: Request) {
        let before = state.store.record;
        let grants = state.store.grants;
        let answer = state.store.serve(owner, request, self.ttl, self.flaw);
        let after = state.store.record;
        if request != Request::TryLock && before != after {
            if before.is_some_and(|record| record.owner != owner) {
                state.wrong = Some(Wrong::TouchedAnother);
            } else if before.is_none() {
                state.wrong = Some(Wrong::Recreated);
            }
        }
        if state.store.grants > grants {
            if state.store.counter <= state.highest {
                state.wrong = Some(Wrong::TokenNotHigher);
            }
            state.highest = state.highest.max(state.store.counter);
        }
        let client = &state.clients[usize::from(owner)];
        let read = match answer {
            Some(Answer::Released) => matches!(client.phase, Phase::Leaving { .. }),
            // An answer to any request but the last is not relied upon.
            Some(_) => client.ago.is_some() && number == client.last,
            None => false,
        };
        if let Some(answer) = answer.filter(|_| read) {
            state.fly(Message::Answer { owner, number, answer });
        }
    }

    fn hear(&self, state: &mut State, owner: u8, number: u8, answer: Answer) {
        let index = usize::from(owner);
        let client = &mut state.clients[index];
        let ago = if number == client.last { client.ago.take() } else { None };
        let counted = if self.flaw == Flaw::ValidityCountsFromTheAnswer { ago.map(|_| 0) } else { ago };
        let valid = counted.map(|ago| self.validity().saturating_sub(ago));
        match (&mut client.phase, answer, valid) {
            (Phase::Asking, Answer::Granted { .. }, Some(0)) => self.give_up(state, index),
            (Phase::Asking, Answer::Granted { token, grant }, Some(left)) => {
                client.phase = Phase::Holding { token, grant, left };
            }
            // What ran out stays lost.
            (Phase::Holding { left: left @ 1.., .. }, _, Some(valid)) => *left = valid.max(*left),
            (Phase::Leaving { doubtful }, Answer::Released, _)
                if !*doubtful || self.flaw == Flaw::SweptOnce =>
            {
                client.leave(Phase::Gone);
            }
            _ => {}
        }
    }

    fn deliver(&self, state: &mut State, message: Message) {
        match message {
            Message::Request { owner, number, request } => self.serve(state, owner, number, request),
            Message::Answer { owner, number, answer } => self.hear(state, owner, number, answer),
        }
    }

    /// Whether nothing more happens by itself.
    pub(crate) fn is_quiet(&self, state: &State) -> bool {
        let through = |client: &Client| matches!(client.phase, Phase::Idle | Phase::Gone);
        state.flying.is_empty()
            && state.clients.iter().all(through)
            && (!self.expires || self.next_state(state, Action::Tick).is_none())
    }

    fn actions_of(&self, state: &State, at: usize, actions: &mut Vec<Action>) {
        let client = &state.clients[at];
        match client.phase {
            Phase::Idle => actions.push(Action::Ask(at)),
            Phase::Asking => {
                if client.repeats > 0 {
                    actions.push(Action::Ask(at));
                }
                actions.push(Action::GiveUp(at));
            }
            Phase::Holding { left, .. } => {
                if client.renewals > 0 && left > 0 {
                    actions.push(Action::Renew(at));
                }
                if self.writes && left > 0 && client.writing.is_none() {
                    actions.push(Action::Look(at));
                }
                actions.push(Action::GiveUp(at));
            }
            // A time-out after the last request nothing of it is on its way any more.
            Phase::Leaving { .. } if !state.awaits(at) => actions.push(Action::Sweep(at)),
            Phase::Gone if self.flaw == Flaw::RenewalOutlivesTheRelease && state.wrong.is_none() => {
                actions.push(Action::Renew(at));
            }
            Phase::Leaving { .. } | Phase::Gone => {}
        }
        if client.writing.is_some() {
            actions.push(Action::Write(at));
        }
    }
}

impl Model for World {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let client = Client::new(self.repeats, self.renewals);
        vec![State {
            store: Store { record: None, counter: 0, grants: 0 },
            highest: 0,
            clients: vec![client; usize::from(self.clients)],
            flying: Vec::new(),
            doubles: self.doubles,
            gain: self.gain,
            resource: Resource::default(),
            wrong: None,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for at in 0..state.clients.len() {
            self.actions_of(state, at, actions);
        }
        for at in 0..state.flying.len() {
            actions.push(Action::Deliver(at));
            if state.doubles > 0 && matches!(state.flying[at], Message::Request { .. }) {
                actions.push(Action::DeliverTwice(at));
            }
            // Where records end by themselves, a message that is lost is one that comes after everything else.
            if !self.expires {
                actions.push(Action::Lose(at));
            }
        }
        if self.expires {
            actions.push(Action::Tick);
            if state.gain > 0 && state.store.record.is_some() {
                actions.push(Action::StoreGains);
            }
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Ask(at) => {
                let client = &mut state.clients[at];
                if client.phase == Phase::Asking {
                    client.repeats -= 1;
                }
                client.phase = Phase::Asking;
                state.send(at, Request::TryLock);
            }
            Action::Renew(at) => {
                if state.clients[at].phase == Phase::Gone {
                    state.wrong = Some(Wrong::RenewedAfterwards);
                } else {
                    state.clients[at].renewals -= 1;
                }
                state.send(at, Request::Renew);
            }
            Action::GiveUp(at) => self.give_up(&mut state, at),
            Action::Sweep(at) => {
                state.send(at, Request::Unlock);
                state.clients[at].leave(Phase::Leaving { doubtful: false });
            }
            Action::Look(at) => {
                if let Phase::Holding { token, grant, .. } = state.clients[at].phase {
                    state.clients[at].writing = Some((token, grant));
                }
            }
            Action::Write(at) => {
                let (token, grant) = state.clients[at].writing.take()?;
                if token >= state.resource.token {
                    if grant < state.resource.grant {
                        state.wrong = Some(Wrong::StaleWriteAccepted);
                    }
                    state.resource = Resource { token, grant };
                }
            }
            Action::Deliver(at) => {
                let message = state.flying.remove(at);
                self.deliver(&mut state, message);
            }
            Action::DeliverTwice(at) => {
                state.doubles -= 1;
                self.deliver(&mut state, last.flying[at]);
            }
            Action::Lose(at) => {
                state.flying.remove(at);
            }
            Action::Tick => {
                state.store.tick(self.flaw);
                state.clients.iter_mut().for_each(|client| client.tick(self.validity()));
            }
            Action::StoreGains => {
                state.gain -= 1;
                state.store.tick(self.flaw);
            }
        }
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::all(self)
    }
}
