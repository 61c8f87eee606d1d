//! `shardkeeper probe`: asks the worker beside it how it is, for health checks in an image that has no shell and no curl.

use std::{
    io::{self, Read as _, Write as _},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream},
    time::Duration,
};

use super::{
    ConfigArgs,
    exit::{Exit, Failure, conclude},
};

/// A worker that needs longer to answer is not well.
const PATIENCE: Duration = Duration::from_secs(3);
/// More than any answer of a probe has.
const LONGEST_ANSWER: u64 = 4 * 1024;

/// Arguments of `probe`.
#[derive(clap::Args, Debug)]
#[command(
    about = "Ask the worker on this host how it is: a health check for images without a shell",
    long_about = "Ask the worker on this host how it is, at admin.listen of its configuration.\n\n\
                  Exit code 0: it is alive (or ready). 1: it is not, does not answer, or has no admin server."
)]
pub(crate) struct Args {
    #[command(flatten)]
    config: ConfigArgs,
    /// Ask whether it is ready (/readyz: lease table reachable, leases loaded), not only alive (/livez).
    #[arg(long)]
    ready: bool,
}

pub(crate) fn main(args: Args) -> Exit {
    conclude(probe(&args))
}

fn probe(args: &Args) -> Result<Exit, Failure> {
    let failed = |reason: String| Failure::new(Exit::Failed, reason);
    let listen = args
        .config
        .load()?
        .admin
        .listen
        .ok_or_else(|| failed("admin.listen is \"off\": there is nobody to ask".to_owned()))?;
    let address = reachable(listen);
    let path = if args.ready { "/readyz" } else { "/livez" };
    let answer = ask(address, path)
        .map_err(|error| failed(format!("no answer from http://{address}{path}: {error}")))?;
    match verdict(&answer) {
        Some((200, _)) => Ok(Exit::Done),
        Some((_, reason)) => Err(failed(reason.to_owned())),
        None => Err(failed(format!(
            "http://{address}{path} does not speak HTTP: another program, most likely"
        ))),
    }
}

/// Where to reach who listens there: "any address" is reached over loopback.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

/// One request, one answer; the admin server closes the connection after it.
fn ask(address: SocketAddr, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    )?;
    let mut answer = Vec::new();
    stream.take(LONGEST_ANSWER).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Status code and body of an HTTP answer.
fn verdict(answer: &str) -> Option<(u16, &str)> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.1 ")?.get(..3)?;
    Some((status.parse().ok()?, body.trim_end()))
}

#[cfg(test)]
mod tests {
    use std::{net::TcpListener, thread};

    use super::*;

    #[test]
    fn any_address_is_reached_over_loopback() {
        for (listen, expected) in [
            ("0.0.0.0:9090", "127.0.0.1:9090"),
            ("[::]:9090", "[::1]:9090"),
            ("10.1.2.3:80", "10.1.2.3:80"),
        ] {
            assert_eq!(reachable(listen.parse().unwrap()).to_string(), expected);
        }
    }

    /// Probes a server that answers `answer` to whatever comes.
    fn probed(answer: &'static str, ready: bool) -> (String, Result<Exit, Failure>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let listen = format!("admin.listen={}", listener.local_addr().unwrap());
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            let mut part = [0; 1024];
            // A request may come in pieces.
            while !request.ends_with(b"\r\n\r\n") {
                let length = stream.read(&mut part).unwrap();
                assert!(length > 0, "the request breaks off");
                request.extend_from_slice(&part[..length]);
            }
            stream.write_all(answer.as_bytes()).unwrap();
            String::from_utf8_lossy(&request).into_owned()
        });
        let args = Args {
            config: ConfigArgs {
                config: concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/worker.toml").into(),
                sets: vec![listen],
            },
            ready,
        };
        let result = probe(&args);
        (server.join().unwrap(), result)
    }

    #[test]
    fn the_answer_decides() {
        let well = "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok\n";
        let unwell = "HTTP/1.1 503 Service Unavailable\r\n\r\nthe leases are not loaded yet\n";
        let (request, result) = probed(well, false);
        assert!(request.starts_with("GET /livez HTTP/1.1\r\n"), "{request}");
        assert_eq!(result.unwrap(), Exit::Done);
        let (request, result) = probed(unwell, true);
        assert!(request.starts_with("GET /readyz HTTP/1.1\r\n"), "{request}");
        let failure = result.unwrap_err();
        assert_eq!(
            (failure.exit, failure.text.as_str()),
            (Exit::Failed, "the leases are not loaded yet")
        );
        let (_, result) = probed("SSH-2.0\r\n", false);
        assert!(result.unwrap_err().text.contains("does not speak HTTP"));
    }
}
