//! What to compare, and how.

use std::path::PathBuf;
use std::time::Duration;

use distlock::{Error, ErrorKind, Result, StoreUrl};

use super::contest::Contest;

/// A store that takes part.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreToCompare {
    /// Its name in the report.
    pub label: String,
    /// Where it is.
    pub url: String,
}

impl StoreToCompare {
    /// A store, from `LABEL=URL`. A label has letters, digits and hyphens.
    ///
    /// # Errors
    /// `InvalidOptions` for what has not this form; those of [`StoreUrl::parse`].
    pub fn parse(text: &str) -> Result<Self> {
        let named = text.split_once('=').filter(|(label, _)| {
            !label.is_empty() && label.chars().all(|char| char.is_ascii_alphanumeric() || char == '-')
        });
        let Some((label, url)) = named else {
            return invalid("write a store as LABEL=URL, for example redis=redis://127.0.0.1".to_owned());
        };
        StoreUrl::parse(url)?;
        Ok(Self { label: label.to_owned(), url: url.to_owned() })
    }
}

/// What to compare, and how.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CompareOptions {
    /// The stores, in the order of the report. At least one; their labels differ.
    pub stores: Vec<StoreToCompare>,
    /// What they are compared in, in the order of the report.
    pub contests: Vec<Contest>,
    /// How often each figure is measured, from 2 to 100. Default: 3. Failovers and held locks are measured once.
    pub rounds: usize,
    /// How long a store works in each round, from 100 ms to 60 s; its floor works as long again. Default: 500 ms.
    pub length: Duration,
    /// How long the run waits for a quiet machine and measures noisy rounds again, in all. Default: 3 min. What
    /// stays noisy then is named, and nothing is compared.
    pub patience: Duration,
    /// How durably the servers write, for the report, as whoever started them says. Default: not said.
    pub durability: Option<String>,
    /// A program that is called with `break LABEL`, to kill the leading server of a store, and with `mend LABEL`,
    /// to make the store whole again and to return when it is. Default: none, and no failovers.
    pub breaker: Option<PathBuf>,
    /// The labels of the stores that the breaker can break.
    pub failovers: Vec<String>,
    /// A program that contends through other libraries. Default: none.
    pub peers: Option<PathBuf>,
}

/// How far a comparison has come.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Progress<'a> {
    /// It begins, and will take so many steps.
    Begins {
        /// How many.
        steps: usize,
    },
    /// The next step begins.
    Step {
        /// What is measured now.
        contest: Contest,
        /// On which store.
        store: &'a str,
    },
    /// It has ended.
    Done,
}

impl CompareOptions {
    /// A comparison of these stores in everything, without failovers and peers.
    #[must_use]
    pub fn new(stores: Vec<StoreToCompare>) -> Self {
        Self {
            stores,
            contests: Contest::FULL.to_vec(),
            rounds: 3,
            length: Duration::from_millis(500),
            patience: Duration::from_secs(180),
            durability: None,
            breaker: None,
            failovers: Vec::new(),
            peers: None,
        }
    }

    /// Checks that the comparison can be made.
    ///
    /// # Errors
    /// `InvalidOptions`, with what to change.
    pub fn check(&self) -> Result<()> {
        if self.stores.is_empty() {
            return invalid("there is nothing to compare; give stores as LABEL=URL".to_owned());
        }
        if let Some(twice) = self.stores.iter().enumerate().find_map(|(n, store)| {
            self.stores[..n].iter().any(|other| other.label == store.label).then_some(&store.label)
        }) {
            return invalid(format!("two stores are called `{twice}`; give each a label of its own"));
        }
        if self.contests.is_empty() {
            return invalid("there is nothing to compare in; name a contest".to_owned());
        }
        if !(2..=100).contains(&self.rounds) {
            return invalid(format!("{} rounds show no spread or take too long; give 2 to 100", self.rounds));
        }
        let (shortest, longest) = (Duration::from_millis(100), Duration::from_secs(60));
        if self.length < shortest || self.length > longest {
            return invalid(format!(
                "{:?} is no length of a round; give {shortest:?} to {longest:?}",
                self.length
            ));
        }
        for label in &self.failovers {
            if !self.stores.iter().any(|store| store.label == *label) {
                return invalid(format!("no store is called `{label}`, whose failover was asked for"));
            }
            if self.breaker.is_none() {
                return invalid(format!(
                    "nothing can break `{label}`; name a program that does as the breaker"
                ));
            }
        }
        Ok(())
    }
}

fn invalid<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::InvalidOptions, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stores(texts: &[&str]) -> Vec<StoreToCompare> {
        texts.iter().map(|text| StoreToCompare::parse(text).unwrap()).collect()
    }

    #[test]
    fn a_store_has_a_label_and_a_url() {
        let store = StoreToCompare::parse("redis-queue=redis://h/0?queue=true").unwrap();
        assert_eq!((store.label.as_str(), store.url.as_str()), ("redis-queue", "redis://h/0?queue=true"));
        for text in ["redis://h", "=memory:", "a b=memory:", "memory:", "x=nonsense"] {
            assert!(StoreToCompare::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused_with_what_to_change() {
        let good = CompareOptions::new(stores(&["a=memory:", "b=memory:"]));
        good.check().unwrap();
        let refused = |change: &dyn Fn(&mut CompareOptions), part: &str| {
            let mut options = good.clone();
            change(&mut options);
            let error = options.check().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidOptions);
            assert!(error.to_string().contains(part), "{error}");
        };
        refused(&|options| options.stores.clear(), "LABEL=URL");
        refused(&|options| options.stores = stores(&["a=memory:", "a=memory:"]), "`a`");
        refused(&|options| options.contests.clear(), "contest");
        refused(&|options| options.rounds = 1, "2 to 100");
        refused(&|options| options.length = Duration::from_millis(1), "100ms");
        refused(&|options| options.failovers = vec!["c".to_owned()], "`c`");
        refused(&|options| options.failovers = vec!["a".to_owned()], "breaker");
    }
}
