//! Which store to use, and the client for it.

use std::env;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use distlock::{LockClient, LockOptions, Metadata, StoreUrl};
use etcetera::BaseStrategy;
use etcetera::base_strategy::Xdg;

use crate::arguments::Global;
use crate::exit::Failure;

/// A client for the store that the command line names, or for the user's own.
pub(crate) async fn connect(global: &Global) -> Result<LockClient, Failure> {
    Ok(distlock::connect(&url(global)?).await?)
}

/// The ttl that a lock gets when the command line names none: the URL's, or the library's default.
pub(crate) fn ttl(global: &Global) -> Result<Duration, Failure> {
    let given = StoreUrl::parse(&url(global)?)?.take_duration("ttl")?;
    Ok(given.unwrap_or(LockOptions::default().ttl))
}

/// What is stored about holders by itself: nothing, if the URL says so.
pub(crate) fn metadata(global: &Global) -> Result<Metadata, Failure> {
    let on = StoreUrl::parse(&url(global)?)?.take_switch("metadata")?.unwrap_or(true);
    Ok(if on { Metadata::of_this_process() } else { Metadata::NONE })
}

/// The store's URL as it may be shown: without a password.
pub(crate) fn shown_url(global: &Global) -> Result<String, Failure> {
    Ok(StoreUrl::parse(&url(global)?)?.to_string())
}

/// The store's URL, with the namespace and the options that the command line gives. The user's own store gets
/// its folder.
pub(crate) fn url(global: &Global) -> Result<String, Failure> {
    let url = match &global.url {
        Some(url) => url.clone(),
        None => own_store()?,
    };
    let namespace = global.namespace.iter().map(|namespace| ("namespace", namespace.as_str()));
    let options = global.options.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    Ok(namespace.chain(options).fold(url, |url, (name, value)| with_option(&url, name, value)))
}

fn own_store() -> Result<String, Failure> {
    let database = state_folder()?.join("distlock").join("locks.db");
    if let Some(folder) = database.parent() {
        create(folder)?;
    }
    let Some(path) = database.to_str() else {
        return Err(Failure::usage(format!(
            "the path of your state folder is no UTF-8 text ({}); give --url or DISTLOCK_URL",
            database.display()
        )));
    };
    Ok(format!("sqlite:{}", percent_encoded(path)))
}

/// `$XDG_STATE_HOME`, or `~/.local/state`. A relative `$XDG_STATE_HOME` does not count, as the
/// specification demands. Without `$HOME`, the user database knows the home folder.
fn state_folder() -> Result<PathBuf, Failure> {
    let given = env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let derived = || Xdg::new().ok().filter(|xdg| xdg.home_dir().is_absolute())?.state_dir();
    absolute(given).or_else(derived).ok_or_else(nowhere)
}

fn absolute(folder: Option<PathBuf>) -> Option<PathBuf> {
    folder.filter(|folder| folder.is_absolute())
}

fn nowhere() -> Failure {
    Failure::usage(
        "there is no folder for your locks: neither XDG_STATE_HOME nor HOME is set; set one, or give --url or DISTLOCK_URL",
    )
}

/// Creates the folder, for this user alone: the locks in it are this user's.
fn create(folder: &Path) -> Result<(), Failure> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|error| {
        Failure::system(
            &format!("can't create {} for your locks; give --url or DISTLOCK_URL", folder.display()),
            error,
        )
    })
}

fn with_option(url: &str, name: &str, value: &str) -> String {
    let joint = if url.contains('?') { '&' } else { '?' };
    format!("{url}{joint}{}={}", percent_encoded(name), percent_encoded(value))
}

fn percent_encoded(text: &str) -> String {
    text.bytes().fold(String::with_capacity(text.len()), |mut encoded, byte| {
        if byte.is_ascii_alphanumeric() || b"/._-~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
        encoded
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_paths_survive_the_url() {
        let url = StoreUrl::parse(&format!("sqlite:{}", percent_encoded("/home/a b/50%?x&ä#"))).unwrap();
        assert_eq!(url.path, "/home/a b/50%?x&ä#");
    }

    #[test]
    fn a_relative_state_folder_does_not_count() {
        assert_eq!(absolute(Some("state".into())), None);
        assert_eq!(absolute(Some("".into())), None);
        assert_eq!(absolute(Some("/state".into())), Some("/state".into()));
    }

    #[test]
    fn without_any_home_it_says_what_to_set() {
        let failure = nowhere();
        assert_eq!(failure.exit.status(), 64);
        assert!(failure.message.contains("XDG_STATE_HOME") && failure.message.contains("--url"));
    }

    #[test]
    fn an_option_joins_others() {
        assert_eq!(with_option("memory:", "namespace", "a&b"), "memory:?namespace=a%26b");
        assert_eq!(with_option("sqlite:x?ttl=5s", "poll", "1s"), "sqlite:x?ttl=5s&poll=1s");
    }
}
