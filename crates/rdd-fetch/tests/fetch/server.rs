//! A server that does to a download what networks, proxies and publishers do.

use std::sync::{Arc, Mutex};

use rdd_stdx::task::Group;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

/// What is done to one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Do {
    /// All is well: parts are given to who asks for them.
    Serve,
    /// The connection ends after so many bytes of the body.
    Cut(usize),
    /// The whole file comes, whatever was asked for.
    IgnoreRange,
    /// Parts come from another place than was asked for, and say so.
    WrongPart,
    /// Parts come from another place than was asked for, and say otherwise.
    LieAboutPart,
    /// The length that is announced differs by so much from what comes.
    LieAboutLength(i64),
    /// No length is announced; the connection ends after so many bytes.
    NoLength(usize),
    /// Another file of the same length comes.
    OtherContent,
    /// The file goes on and on.
    Longer(usize),
    /// Nothing but a status.
    Status(u16),
    /// Somewhere else.
    Redirect(String),
    /// The connection ends before anything was said.
    HangUp,
    /// Nothing is said at all.
    Silence,
    /// What is said is not HTTP.
    Nonsense,
}

/// A request, as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) path: String,
    pub(crate) from: usize,
    pub(crate) if_range: Option<String>,
}

pub(crate) struct Server {
    pub(crate) port: u16,
    shared: Arc<Shared>,
    _tasks: Group<()>,
}

struct Shared {
    content: Mutex<Vec<u8>>,
    tag: Mutex<String>,
    /// Taken from the front; when none is left all is well.
    plan: Mutex<Vec<Do>>,
    asked: Mutex<Vec<Asked>>,
}

impl Server {
    pub(crate) async fn start(content: &[u8], plan: Vec<Do>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared {
            content: Mutex::new(content.to_vec()),
            tag: Mutex::new("\"one\"".to_owned()),
            plan: Mutex::new(plan),
            asked: Mutex::default(),
        });
        let mut tasks = Group::default();
        let serving = shared.clone();
        tasks.spawn("server", async move {
            let mut connections = Group::default();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let shared = serving.clone();
                connections.spawn("connection", async move { drop(answer(&shared, stream).await) });
            }
        });
        Self { port, shared, _tasks: tasks }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/{path}", self.port)
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.shared.asked.lock().unwrap().clone()
    }

    /// From now on it has another file.
    pub(crate) fn change(&self, content: &[u8], tag: &str) {
        *self.shared.content.lock().unwrap() = content.to_vec();
        *self.shared.tag.lock().unwrap() = tag.to_owned();
    }
}

async fn answer(shared: &Shared, mut stream: impl AsyncReadExt + AsyncWriteExt + Unpin) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let asked = read(&String::from_utf8(head).unwrap());
    shared.asked.lock().unwrap().push(asked.clone());
    let step = {
        let mut plan = shared.plan.lock().unwrap();
        if plan.is_empty() { Do::Serve } else { plan.remove(0) }
    };
    let content = shared.content.lock().unwrap().clone();
    let tag = shared.tag.lock().unwrap().clone();
    let bytes = reply(&step, &asked, content, &tag);
    stream.write_all(&bytes).await?;
    stream.flush().await?;
    if step == Do::Silence {
        std::future::pending::<()>().await;
    }
    stream.shutdown().await
}

fn read(head: &str) -> Asked {
    let header = |name: &str| {
        let lines = head.lines().filter_map(|line| line.split_once(':'));
        lines.into_iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim().to_owned())
    };
    let from = header("range").and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok());
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    Asked { path, from: from.unwrap_or(0), if_range: header("if-range") }
}

/// The bytes of a whole answer.
fn reply(step: &Do, asked: &Asked, mut content: Vec<u8>, tag: &str) -> Vec<u8> {
    match step {
        Do::HangUp | Do::Silence => return Vec::new(),
        Do::Nonsense => return b"220 ready when you are\r\n\r\n".to_vec(),
        Do::Status(status) => return format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n").into_bytes(),
        Do::Redirect(to) => {
            return format!("HTTP/1.1 302 X\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n").into_bytes();
        }
        Do::OtherContent => content.iter_mut().for_each(|byte| *byte ^= 0x55),
        Do::Longer(more) => content.extend(vec![7; *more]),
        _ => {}
    }
    let whole = content.len();
    let is_same = asked.if_range.as_deref().is_none_or(|validator| validator == tag);
    let is_part = asked.from > 0 && is_same && *step != Do::IgnoreRange;
    if is_part && asked.from >= whole {
        return format!("HTTP/1.1 416 X\r\ncontent-range: bytes */{whole}\r\ncontent-length: 0\r\n\r\n").into_bytes();
    }
    let (sent, said) = match step {
        Do::WrongPart => (asked.from / 2, asked.from / 2),
        Do::LieAboutPart => (asked.from / 2, asked.from),
        _ => (asked.from, asked.from),
    };
    let (body, status, range) = if is_part {
        let range = format!("content-range: bytes {said}-{}/{whole}\r\n", whole - 1);
        (&content[sent..], "206 X", range)
    } else {
        (&content[..], "200 X", String::new())
    };
    let length = match step {
        Do::LieAboutLength(by) => body.len().saturating_add_signed(isize::try_from(*by).unwrap()),
        _ => body.len(),
    };
    let length = match step {
        Do::NoLength(_) => "connection: close\r\n".to_owned(),
        _ => format!("content-length: {length}\r\n"),
    };
    let body = match step {
        Do::Cut(after) | Do::NoLength(after) => &body[..body.len().min(*after)],
        _ => body,
    };
    let mut bytes = format!("HTTP/1.1 {status}\r\netag: {tag}\r\n{range}{length}\r\n").into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

/// Bytes that are not all the same, so that a part in the wrong place is another file.
pub(crate) fn content(length: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_u32;
    let step = |_| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state.to_le_bytes()[0]
    };
    (0..length).map(step).collect()
}
