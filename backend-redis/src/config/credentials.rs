//! Credentials that change while the program runs.

use std::fmt;

use async_trait::async_trait;
use distlock_core::Result;

/// A user and a password. The password is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    user: Option<String>,
    password: String,
}

impl Credentials {
    /// The password of the user `default`.
    #[must_use]
    pub fn new(password: impl Into<String>) -> Self {
        Self { user: None, password: password.into() }
    }

    /// Sets the user.
    #[must_use]
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    pub(crate) fn user_name(&self) -> Option<&str> {
        self.user.as_deref()
    }

    pub(crate) fn secret(&self) -> &str {
        &self.password
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).field("password", &"…").finish()
    }
}

/// Knows the credentials of the moment: a file that is rewritten, a vault, a cloud's short-lived tokens.
///
/// An async closure is one:
/// ```
/// use distlock_redis::{Credentials, RedisConfig};
/// let config = RedisConfig::new("127.0.0.1:6379").credentials(async || {
///     // Ask whoever knows.
///     Ok(Credentials::new("of today").user("locks"))
/// });
/// ```
#[async_trait]
pub trait CredentialsProvider: Send + Sync {
    /// The credentials of the moment.
    ///
    /// - Asked for whenever a connection is opened, so also after a break and a refusal, and when
    ///   [`version`](CredentialsProvider::version) has changed.
    /// - Has to answer within the option `connect_timeout`; better keep a copy than ask far away each time.
    /// - May be dropped at any point.
    ///
    /// # Errors
    /// Whatever kept it from knowing. The connection is not opened then, and the error is passed on.
    async fn credentials(&self) -> Result<Credentials>;

    /// A number that changes when the credentials do. The open connection then authenticates itself
    /// anew before its next command. The default never changes: then open connections are left
    /// as they are, which is all right as long as the server leaves them too.
    fn version(&self) -> u64 {
        0
    }
}

#[async_trait]
impl<F, A> CredentialsProvider for F
where
    F: Fn() -> A + Send + Sync,
    A: Future<Output = Result<Credentials>> + Send,
{
    async fn credentials(&self) -> Result<Credentials> {
        self().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_form_shows_the_password() {
        let text = format!("{:?}", Credentials::new("secret").user("me"));
        assert!(text.contains("me") && !text.contains("secret"), "{text}");
    }
}
