//! Takes a lock, shows its token, and gives it back.
#![expect(clippy::print_stdout, reason = "the example's output")]

#[tokio::main]
async fn main() -> distlock::Result<()> {
    let url = std::env::var("DISTLOCK_URL").unwrap_or_else(|_| "memory:".into());
    let client = distlock::connect(&url).await?;
    let guard = client.lock("invoice/42").await?;
    println!("holding {}, token {}, good for {:?}", guard.key(), guard.token(), guard.remaining());
    guard.unlock().await?;
    Ok(())
}
