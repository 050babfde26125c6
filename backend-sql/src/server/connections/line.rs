//! Connections, as they are opened.

use sqlx::{Connection, Database};

use crate::server::dialect::{Dialect, Options};

/// A connection, and whatever the driver needs around it. Dropping it closes it at once.
pub(crate) trait Line<D: Dialect>: Sized + Send + 'static {
    /// Opens one.
    fn open(options: &Options<D>) -> impl Future<Output = Result<Self, sqlx::Error>> + Send;

    /// What statements are sent on. Fails once the end of it was noticed.
    fn connection(
        &mut self,
    ) -> impl Future<Output = Result<&mut <D as Database>::Connection, sqlx::Error>> + Send;

    /// Closes it, and tells the server where that is possible.
    fn close(self) -> impl Future<Output = ()> + Send;
}

/// A connection of the driver's as it is: it is read from while a statement is under way, and at no other time.
pub(crate) struct Plain<C>(pub(crate) C);

impl<D: Dialect> Line<D> for Plain<D::Connection> {
    async fn open(options: &Options<D>) -> Result<Self, sqlx::Error> {
        D::Connection::connect_with(options).await.map(Self)
    }

    async fn connection(&mut self) -> Result<&mut D::Connection, sqlx::Error> {
        Ok(&mut self.0)
    }

    async fn close(self) {
        // The server finds out by itself when this fails.
        let _ = self.0.close().await;
    }
}
