//! Addresses on the command line.

use std::net::SocketAddr;

/// Reads where to listen. Names are not looked up: they may mean several addresses.
pub(crate) fn parse(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "write an IP address and a port, for example 127.0.0.1:9464 or [::1]:9464; port 0 takes a free one"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_port_and_no_name() {
        for text in ["127.0.0.1:9464", "[::1]:9464", "0.0.0.0:0"] {
            assert_eq!(parse(text).unwrap().to_string(), text);
        }
        for text in ["", "9464", ":9464", "localhost:9464", "127.0.0.1", "::1:9464x", "127.0.0.1:65536"] {
            assert!(parse(text).unwrap_err().contains("127.0.0.1:9464"), "{text}");
        }
    }
}
