//! The baseline for reads: a separate process with only hyper and rustls that serves recorded replies.

use std::{
    collections::HashMap,
    convert::Infallible,
    fs,
    io::{BufRead, BufReader, Write},
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    process::{Child, Stdio},
    sync::Arc,
};

use anyhow::{Context, Result};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::{
    body::Incoming,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rdd_apiserver::tls::Tls;
use rdd_stdx::{clock::SystemClock, process::background, task::Group};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::wire::Endpoint;

/// The argument that makes this program the baseline server.
pub(crate) const COMMAND: &str = "bare-server";

/// The headers and the body of each path.
pub(crate) type Answers = HashMap<String, (HeaderMap, Bytes)>;

/// A running baseline server; dropping it kills the process.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    pub(crate) endpoint: Endpoint,
}

impl Server {
    /// Starts a server with these replies, with its files in this new folder.
    pub(crate) fn start(folder: &Path, answers: &Answers) -> Result<Self> {
        fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
        save(folder, answers)?;
        let program = std::env::current_exe().context("find this program")?;
        let mut command = background("setpriv", folder);
        // setpriv has the kernel kill the server when this process dies.
        command.args(["--pdeathsig", "KILL"]).arg(program).arg(COMMAND).arg(folder).stdout(Stdio::piped());
        let mut child = command.spawn().context("start the bare server")?;
        let output = child.stdout.take().expect("it was asked for");
        let mut line = String::new();
        let read = BufReader::new(output).read_line(&mut line).context("learn where the bare server listens");
        let endpoint = read.and_then(|_| {
            let bundle = fs::read(folder.join("bundle")).context("read the bare server's certificate")?;
            Endpoint::new(line.trim().parse().context("the bare server did not start")?, &bundle, "none")
        });
        match endpoint {
            Ok(endpoint) => Ok(Self { child, endpoint }),
            Err(error) => {
                // It may have ended by itself.
                let _ = child.kill();
                let _ = child.wait();
                Err(error)
            }
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It has no state worth keeping, and it may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Serves the replies of a folder until the process is killed.
pub(crate) fn serve(folder: &Path) -> Result<()> {
    // The daemon chooses its number of threads in the same way.
    let workers = std::thread::available_parallelism().map_or(2, usize::from).min(4);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(workers).enable_all().build();
    runtime.context("start the runtime")?.block_on(accept(folder))
}

async fn accept(folder: &Path) -> Result<()> {
    let tls = Tls::open(&folder.join("tls"), SystemClock::shared(), Box::new(|_| {})).context("make certificates")?;
    fs::write(folder.join("bundle"), tls.bundle()).context("publish the certificate")?;
    let answers = Arc::new(load(folder)?);
    let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await.context("listen")?;
    let mut output = std::io::stdout();
    writeln!(output, "{}", listener.local_addr().context("listen")?).context("say where we listen")?;
    let acceptor = TlsAcceptor::from(tls.config());
    let mut connections = Group::default();
    loop {
        let (stream, _) = listener.accept().await.context("accept")?;
        let (acceptor, answers) = (acceptor.clone(), Arc::clone(&answers));
        connections.spawn("connection", async move {
            // A client that disconnects is not a failure.
            drop(converse(stream, acceptor, answers).await);
        });
    }
}

async fn converse(stream: TcpStream, acceptor: TlsAcceptor, answers: Arc<Answers>) -> Result<()> {
    stream.set_nodelay(true)?;
    let stream = acceptor.accept(stream).await?;
    let speaks_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = answer(&answers, &request);
        async move { Ok::<_, Infallible>(answer) }
    });
    if speaks_http2 {
        http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await?;
    } else {
        http1::Builder::new().serve_connection(TokioIo::new(stream), service).await?;
    }
    Ok(())
}

fn answer(answers: &Answers, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    match answers.get(request.uri().path()) {
        Some((headers, body)) => {
            response.headers_mut().clone_from(headers);
            *response.body_mut() = Full::new(body.clone());
        }
        None => *response.status_mut() = StatusCode::NOT_FOUND,
    }
    response
}

/// Writes each reply as two files: its path with headers, and its body.
fn save(folder: &Path, answers: &Answers) -> Result<()> {
    for (number, (path, (headers, body))) in answers.iter().enumerate() {
        let mut head = format!("{path}\n");
        // hyper sets these headers itself.
        for (name, value) in
            headers.iter().filter(|(name, _)| !["content-length", "date", "transfer-encoding"].contains(&name.as_str()))
        {
            head.push_str(&format!("{name}\n{}\n", value.to_str().context("keep a header")?));
        }
        fs::write(folder.join(format!("{number}.head")), head).context("keep an answer")?;
        fs::write(folder.join(format!("{number}.body")), body).context("keep an answer")?;
    }
    Ok(())
}

fn load(folder: &Path) -> Result<Answers> {
    let mut answers = Answers::new();
    while let Ok(head) = fs::read_to_string(folder.join(format!("{}.head", answers.len()))) {
        let body = fs::read(folder.join(format!("{}.body", answers.len()))).context("read an answer")?;
        let mut lines = head.lines();
        let path = lines.next().context("read an answer")?.to_owned();
        let mut headers = HeaderMap::new();
        while let (Some(name), Some(value)) = (lines.next(), lines.next()) {
            let name: HeaderName = name.parse().context("read a header")?;
            headers.insert(name, HeaderValue::from_str(value).context("read a header")?);
        }
        answers.insert(path, (headers, body.into()));
    }
    Ok(answers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_survive_the_way_to_the_other_process() {
        let folder = tempfile::tempdir().unwrap();
        let mut headers = HeaderMap::new();
        headers.insert("content-type", HeaderValue::from_static("application/json"));
        let mut answers = Answers::new();
        answers.insert("/a".to_owned(), (headers, Bytes::from_static(b"{}\n")));
        answers.insert("/b".to_owned(), (HeaderMap::new(), Bytes::from_static(&[0, 255])));
        save(folder.path(), &answers).unwrap();
        assert_eq!(load(folder.path()).unwrap(), answers);
    }
}
