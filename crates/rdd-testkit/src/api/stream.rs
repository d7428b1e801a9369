//! A raw TLS connection and a parser of HTTP replies, for tests that control every byte.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    sync::Arc,
    time::{Duration, Instant},
};

use rustls::{ClientConfig, ClientConnection, StreamOwned, pki_types::ServerName};

use super::{PATIENCE, reply::Reply};

/// A connection to a server, on which a test may send any bytes.
#[derive(Debug)]
pub struct Stream {
    tls: StreamOwned<ClientConnection, TcpStream>,
    /// Bytes that were read but not consumed.
    ahead: Vec<u8>,
}

/// Reading past the HTTP parser, for protocols such as WebSocket.
impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.ahead.is_empty() {
            return Self::read(self, buffer);
        }
        let count = buffer.len().min(self.ahead.len());
        buffer[..count].copy_from_slice(&self.ahead[..count]);
        self.ahead.drain(..count);
        Ok(count)
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.tls.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.tls.flush()
    }
}

/// The status line and headers of a reply.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) code: u16,
    pub(super) headers: Vec<(String, String)>,
}

impl Head {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn is_chunked(&self) -> bool {
        self.header("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked"))
    }

    pub(super) fn closes(&self) -> bool {
        self.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }
}

impl Stream {
    pub(super) fn connect(address: SocketAddr, config: Arc<ClientConfig>) -> io::Result<Self> {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        socket.set_write_timeout(Some(PATIENCE))?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let name = ServerName::from(address.ip());
        let tls = ClientConnection::new(config, name).map_err(io::Error::other)?;
        Ok(Self { tls: StreamOwned::new(tls, socket), ahead: Vec::new() })
    }

    /// Sends these bytes.
    pub fn say(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.tls.write_all(bytes)?;
        self.tls.flush()
    }

    /// Closes the socket without a TLS close, like a process that was killed.
    pub fn abandon(self) {
        // The peer may have closed it already.
        let _ = self.tls.sock.shutdown(Shutdown::Both);
    }

    /// Reads more bytes. Returns false at the end of the stream, and the error [`ErrorKind::TimedOut`] after the timeout.
    pub(super) fn read_more(&mut self, within: Duration) -> io::Result<bool> {
        self.tls.sock.set_read_timeout(Some(within.max(Duration::from_millis(1))))?;
        let mut buffer = [0; 16 * 1024];
        match self.read(&mut buffer) {
            Ok(0) => Ok(false),
            Ok(count) => {
                self.ahead.extend_from_slice(&buffer[..count]);
                Ok(true)
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Err(ErrorKind::TimedOut.into())
            }
            // An aborted connection is an end too; the caller decides whether an end is valid here.
            Err(error) if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Like rustls' own read, except that a failed send does not prevent reading a reply that has arrived.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.tls.conn.is_handshaking() {
            return self.tls.read(buffer);
        }
        loop {
            match self.tls.conn.reader().read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                read => return read,
            }
            if self.tls.conn.read_tls(&mut self.tls.sock)? == 0 {
                return Ok(0);
            }
            self.tls.conn.process_new_packets().map_err(io::Error::other)?;
        }
    }

    /// Reads until the server closes the connection; `None` if it does not close it within this time.
    pub fn until_closed(&mut self, within: Duration) -> Option<Vec<u8>> {
        let deadline = Instant::now() + within;
        loop {
            match self.read_more(deadline.saturating_duration_since(Instant::now())) {
                Ok(true) => {}
                Ok(false) => return Some(std::mem::take(&mut self.ahead)),
                Err(error) if error.kind() == ErrorKind::TimedOut && Instant::now() >= deadline => return None,
                Err(error) if error.kind() == ErrorKind::TimedOut => {}
                Err(_) => return Some(std::mem::take(&mut self.ahead)),
            }
        }
    }

    /// Reads one reply; `is_head` means that it has no body whatever its headers say. The flag is whether the connection can be reused.
    pub fn answer(&mut self, is_head: bool) -> io::Result<(Reply, bool)> {
        let head = loop {
            let head = self.head()?;
            // `100 Continue` precedes the real reply.
            if head.code != 100 {
                break head;
            }
        };
        let length: Option<usize> = head.header("content-length").and_then(|value| value.parse().ok());
        let mut open = !head.closes();
        let body = match length {
            _ if is_head || matches!(head.code, 204 | 304) => Vec::new(),
            Some(length) => self.take(length)?,
            None if head.is_chunked() => {
                let mut body = Vec::new();
                while let Some(chunk) = self.chunk()? {
                    body.extend_from_slice(&chunk);
                }
                body
            }
            None => {
                open = false;
                self.until_closed(PATIENCE).ok_or(ErrorKind::TimedOut)?
            }
        };
        Ok((Reply { code: head.code, headers: head.headers, body }, open))
    }

    pub(super) fn head(&mut self) -> io::Result<Head> {
        let text = self.until(b"\r\n\r\n")?;
        let text = String::from_utf8_lossy(&text).into_owned();
        let mut lines = text.lines();
        let code = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|code| code.parse().ok());
        let code = code.ok_or_else(|| io::Error::other(format!("no answer of HTTP: {text:?}")))?;
        let pairs = lines.filter_map(|line| line.split_once(':'));
        let headers = pairs.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned())).collect();
        Ok(Head { code, headers })
    }

    /// Reads the next chunk of a chunked body; `None` for the last, empty one.
    pub(super) fn chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        let line = self.until(b"\r\n")?;
        let digits = String::from_utf8_lossy(&line).trim().to_owned();
        let length = usize::from_str_radix(&digits, 16).map_err(io::Error::other)?;
        let mut chunk = self.take(length + 2)?;
        chunk.truncate(length);
        Ok((length > 0).then_some(chunk))
    }

    /// Whether a complete chunk is buffered or arrives within this time.
    pub(super) fn has_chunk(&mut self, within: Duration) -> io::Result<bool> {
        let deadline = Instant::now() + within;
        loop {
            if self.holds_chunk() {
                return Ok(true);
            }
            match self.read_more(deadline.saturating_duration_since(Instant::now())) {
                Ok(true) => {}
                Ok(false) => return Err(ErrorKind::UnexpectedEof.into()),
                Err(error) if error.kind() == ErrorKind::TimedOut => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }

    fn holds_chunk(&self) -> bool {
        let Some(end) = self.ahead.windows(2).position(|pair| pair == b"\r\n") else { return false };
        let digits = std::str::from_utf8(&self.ahead[..end]).unwrap_or_default();
        usize::from_str_radix(digits.trim(), 16).is_ok_and(|length| self.ahead.len() >= end + 2 + length + 2)
    }

    fn until(&mut self, mark: &[u8]) -> io::Result<Vec<u8>> {
        loop {
            if let Some(at) = self.ahead.windows(mark.len()).position(|window| window == mark) {
                return self.take(at + mark.len());
            }
            if !self.read_more(PATIENCE)? {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
    }

    fn take(&mut self, count: usize) -> io::Result<Vec<u8>> {
        while self.ahead.len() < count {
            if !self.read_more(PATIENCE)? {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        let rest = self.ahead.split_off(count);
        Ok(std::mem::replace(&mut self.ahead, rest))
    }
}
