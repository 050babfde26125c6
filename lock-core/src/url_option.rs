//! What an option of a store's URL is, for programs that check it and people who look it up.

/// One option of a store's URL: `?name=value`. A configuration in code has a field and a setter of the
/// same name, unless the option's meaning says otherwise: "In code:" names both, "Set by" a setter that sets several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct UrlOption {
    /// Its name.
    pub name: &'static str,
    /// What it takes, such as `duration` or `on or off`.
    pub takes: &'static str,
    /// What holds without it.
    pub default: &'static str,
    /// What it sets, its range, and what more or less of it does.
    pub meaning: &'static str,
}

impl UrlOption {
    /// `ca`, of all backends that can encrypt.
    pub const CA: Self = Self::new(
        "ca",
        "file",
        "Mozilla's list",
        "The certificate authority to trust instead, in PEM format; with encryption.",
    );
    /// `cert`, of all backends that can encrypt.
    pub const CERT: Self = Self::new(
        "cert",
        "file",
        "none",
        "The client's certificate, in PEM format, for servers that want one; goes with `key`. Set by `identity`.",
    );
    /// `key`, of all backends that can encrypt.
    pub const KEY: Self = Self::new("key", "file", "none", "The private key of `cert`. Set by `identity`.");

    /// An option.
    #[must_use]
    pub const fn new(
        name: &'static str,
        takes: &'static str,
        default: &'static str,
        meaning: &'static str,
    ) -> Self {
        Self { name, takes, default, meaning }
    }
}
