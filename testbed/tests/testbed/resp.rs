//! As much of Redis' protocol as these tests need, on a plain socket: nothing reconnects behind their back.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

pub(crate) struct Resp(BufReader<TcpStream>);

impl Resp {
    pub(crate) fn connect(address: SocketAddr) -> io::Result<Self> {
        Self::on(TcpStream::connect_timeout(&address, Duration::from_secs(10))?)
    }

    pub(crate) fn on(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self(BufReader::new(stream)))
    }

    /// Sends a command and reads its answer, however long that takes.
    pub(crate) fn ask(&mut self, words: &[&str]) -> io::Result<Option<String>> {
        self.ask_within(Duration::from_secs(30), words)
    }

    pub(crate) fn ask_within(&mut self, limit: Duration, words: &[&str]) -> io::Result<Option<String>> {
        self.send(words)?;
        self.answer_within(limit)
    }

    pub(crate) fn send(&mut self, words: &[&str]) -> io::Result<()> {
        let mut command = format!("*{}\r\n", words.len());
        for word in words {
            command.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        self.0.get_mut().write_all(command.as_bytes())
    }

    /// The next answer; `WouldBlock` or `TimedOut` if none comes within `limit`. `None` is nil.
    pub(crate) fn answer_within(&mut self, limit: Duration) -> io::Result<Option<String>> {
        self.0.get_mut().set_read_timeout(Some(limit))?;
        let mut line = String::new();
        if self.0.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let (kind, rest) = line.trim_end().split_at(1);
        match kind {
            "+" | ":" => Ok(Some(rest.to_owned())),
            "-" => Err(io::Error::other(rest.to_owned())),
            "$" if rest == "-1" => Ok(None),
            "$" => {
                let length: usize = rest.parse().map_err(io::Error::other)?;
                let mut text = vec![0; length + 2];
                self.0.read_exact(&mut text)?;
                text.truncate(length);
                String::from_utf8(text).map(Some).map_err(io::Error::other)
            }
            // Of a list these tests only want the elements, one after the other, joined.
            "*" => {
                let length: usize = rest.parse().map_err(io::Error::other)?;
                let items = (0..length).map(|_| self.answer_within(limit));
                let items: Vec<_> = items.collect::<io::Result<_>>()?;
                Ok(Some(items.into_iter().flatten().collect::<Vec<_>>().join(" ")))
            }
            _ => Err(io::Error::other(format!("not understood: {line}"))),
        }
    }
}

/// Whether a call ran into its time-out, as opposed to a reset, a refusal or an end.
pub(crate) fn is_silence<T>(result: &io::Result<T>) -> bool {
    result
        .as_ref()
        .is_err_and(|error| matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut))
}
