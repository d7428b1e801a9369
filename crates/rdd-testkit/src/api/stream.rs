//! One TLS connection, and answers read from it.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    sync::Arc,
    time::{Duration, Instant},
};

use rustls::{ClientConfig, ClientConnection, StreamOwned, pki_types::ServerName};

use super::{PATIENCE, reply::Reply};

/// One connection to a server, for saying anything on it.
#[derive(Debug)]
pub struct Stream {
    tls: StreamOwned<ClientConnection, TcpStream>,
    /// Read, and not used yet.
    ahead: Vec<u8>,
}

/// For those who speak a protocol of their own over it.
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

/// The head of an answer.
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

    /// Says these bytes.
    pub fn say(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.tls.write_all(bytes)?;
        self.tls.flush()
    }

    /// Goes away without a word, as a process that dies does.
    pub fn abandon(self) {
        // It may be closed already.
        let _ = self.tls.sock.shutdown(Shutdown::Both);
    }

    /// Reads more; `false` at the end of the stream, an error of [`ErrorKind::TimedOut`] when nothing came in time.
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
            // A connection that is cut is an end too: whether it may end here is for the reader to say.
            Err(error) if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// As the library reads, but for this: what could not be sent does not keep us from reading what was answered.
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

    /// Everything until the server closes, which it must within this time; `None` if it does not.
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

    /// One answer; `is_head` if it has no body whatever it says. The flag says whether the connection can be used again.
    pub fn answer(&mut self, is_head: bool) -> io::Result<(Reply, bool)> {
        let head = loop {
            let head = self.head()?;
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

    /// The next chunk of a chunked body; `None` at its end.
    pub(super) fn chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        let line = self.until(b"\r\n")?;
        let digits = String::from_utf8_lossy(&line).trim().to_owned();
        let length = usize::from_str_radix(&digits, 16).map_err(io::Error::other)?;
        let mut chunk = self.take(length + 2)?;
        chunk.truncate(length);
        Ok((length > 0).then_some(chunk))
    }

    /// Whether a whole chunk has been read already, or comes within this time.
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
