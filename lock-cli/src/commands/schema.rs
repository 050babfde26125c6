//! `distlock schema`.

use distlock::StoreUrl;

use crate::arguments::{Global, Schema};
use crate::exit::{Exit, Failure};
use crate::output::Printer;
#[cfg(any(feature = "mysql", feature = "postgres"))]
use crate::output::Tables;
use crate::store;

#[cfg_attr(
    not(any(feature = "mysql", feature = "postgres")),
    expect(unused_variables, unreachable_code, reason = "then no store has tables to create")
)]
pub(super) async fn execute(global: &Global, printer: &Printer, schema: Schema) -> Result<Exit, Failure> {
    let mut url = StoreUrl::parse(&store::url(global)?)?;
    // Those of the client, which mean nothing here.
    for option in ["namespace", "ttl", "op_timeout", "metadata"] {
        url.take(option);
    }
    match url.scheme.as_str() {
        #[cfg(feature = "postgres")]
        scheme if distlock::postgres::SCHEMES.contains(&scheme) => {
            let config = distlock::postgres::ServerConfig::from_url(&mut url)?;
            url.refuse_unknown(distlock::postgres::URL_OPTIONS)?;
            let script = distlock::postgres::schema(&config)?;
            if !schema.print {
                distlock::postgres::create_schema(config).await?;
            }
            printer.print(&Tables::new(script, !schema.print))?;
        }
        #[cfg(feature = "mysql")]
        scheme if distlock::mysql::SCHEMES.contains(&scheme) => {
            let config = distlock::mysql::ServerConfig::from_url(&mut url)?;
            url.refuse_unknown(distlock::mysql::URL_OPTIONS)?;
            let script = distlock::mysql::schema(&config)?;
            if !schema.print {
                distlock::mysql::create_schema(config).await?;
            }
            printer.print(&Tables::new(script, !schema.print))?;
        }
        scheme => return Err(not_here(scheme)),
    }
    Ok(Exit::Success)
}

fn not_here(scheme: &str) -> Failure {
    let feature = match scheme {
        "postgres" | "postgresql" => "postgres",
        "mysql" | "mariadb" => "mysql",
        _ => return Failure::usage("only database servers have tables to create: postgres:// and mysql://"),
    };
    Failure::usage(format!("this build has no {feature}; install it with `--features {feature}`"))
}
