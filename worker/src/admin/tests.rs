//! Over loopback, byte for byte.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::*;
use crate::metrics::ShardLabels;

/// A server on a free port; the coordinator's beat is `age` seconds old and may be 30.
struct Scene {
    address: SocketAddr,
    health: Health,
    age: Arc<AtomicU64>,
    stop: Option<oneshot::Sender<()>>,
    server: JoinHandle<()>,
}

impl Scene {
    async fn new() -> Self {
        let listener = bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        let address = listener.local_addr().unwrap();
        let age = Arc::new(AtomicU64::new(0));
        let beat = age.clone();
        let health = Health::new(Duration::from_secs(30), move || {
            Duration::from_secs(beat.load(Ordering::Relaxed))
        });
        let exporter = Exporter::build(ShardLabels::Shard).unwrap();
        let (stop, stopped) = oneshot::channel();
        let shutdown = async move { drop(stopped.await) };
        let server = tokio::spawn(serve(
            listener,
            health.clone(),
            Arc::new(exporter),
            shutdown,
        ));
        Scene {
            address,
            health,
            age,
            stop: Some(stop),
            server,
        }
    }

    async fn send(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    /// Status and body of a GET.
    async fn get(&self, path: &str) -> (u16, String) {
        split(
            &self
                .send(&format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"))
                .await,
        )
    }
}

fn split(answer: &str) -> (u16, String) {
    let (head, body) = answer.split_once("\r\n\r\n").expect("a whole head");
    let status = head.strip_prefix("HTTP/1.1 ").unwrap()[..3]
        .parse()
        .unwrap();
    (status, body.to_owned())
}

#[tokio::test]
async fn alive_until_the_coordinator_stops_beating() {
    let scene = Scene::new().await;
    assert_eq!(scene.get("/livez").await, (200, "ok\n".into()));
    scene.age.store(30, Ordering::Relaxed);
    assert_eq!(scene.get("/livez").await.0, 200);
    scene.age.store(31, Ordering::Relaxed);
    let expected = "the coordinator has not beaten for 31s; its limit is 30s\n";
    assert_eq!(scene.get("/livez").await, (503, expected.into()));
    scene.age.store(0, Ordering::Relaxed);
    assert_eq!(scene.get("/livez").await.0, 200);
}

#[tokio::test]
async fn ready_when_the_table_answers_and_the_leases_are_loaded() {
    let scene = Scene::new().await;
    assert_eq!(
        scene.get("/readyz").await,
        (503, "the lease table is not reachable\n".into())
    );
    scene.health.table_reachable(true);
    assert_eq!(
        scene.get("/readyz").await,
        (503, "the leases are not loaded yet\n".into())
    );
    scene.health.leases_loaded();
    assert_eq!(scene.get("/readyz").await, (200, "ok\n".into()));
    scene.health.table_reachable(false);
    assert_eq!(scene.get("/readyz").await.0, 503);
    assert_eq!(
        scene.get("/livez").await.0,
        200,
        "a table that is away is no reason to restart"
    );
}

#[tokio::test]
async fn metrics_are_rendered_for_prometheus() {
    let scene = Scene::new().await;
    let answer = scene
        .send("GET /metrics?x=1 HTTP/1.1\r\nHost: x\r\n\r\n")
        .await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(
        answer.contains("content-type: text/plain; version=0.0.4; charset=utf-8\r\n"),
        "{answer}"
    );
    assert!(
        answer.contains("\nshardkeeper_build_info{version="),
        "{answer}"
    );
}

#[tokio::test]
async fn other_paths_and_methods_are_refused() {
    let scene = Scene::new().await;
    assert_eq!(scene.get("/nope").await.0, 404);
    assert_eq!(scene.get("/livez/").await.0, 404);
    let post = scene
        .send("POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi")
        .await;
    assert!(
        post.starts_with("HTTP/1.1 405 ") && post.contains("allow: GET, HEAD\r\n"),
        "{post}"
    );
    let head = scene.send("HEAD /livez HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert_eq!(split(&head), (200, String::new()));
    assert!(scene.get("/").await.1.contains("/readyz"));
    assert!(
        scene
            .send("nonsense\r\n\r\n")
            .await
            .starts_with("HTTP/1.1 400 ")
    );
    let long = format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(100_000));
    let mut stream = TcpStream::connect(scene.address).await.unwrap();
    let _ = stream.write_all(long.as_bytes()).await;
    assert_eq!(
        scene.get("/livez").await.0,
        200,
        "a head too long harms nobody else"
    );
}

#[tokio::test(start_paused = true)]
async fn a_client_that_says_nothing_is_let_go() {
    let scene = Scene::new().await;
    for said in ["", "GET /livez HTTP/1.1\r\nHos"] {
        let mut stream = TcpStream::connect(scene.address).await.unwrap();
        stream.write_all(said.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let closed = timeout(2 * CONNECTION_TIMEOUT, stream.read_to_end(&mut answer)).await;
        closed.expect("the server closes").unwrap();
        assert!(!answer.starts_with(b"HTTP/1.1 2"));
    }
}

#[tokio::test(start_paused = true)]
async fn silent_clients_do_not_lock_others_out() {
    let scene = Scene::new().await;
    let mut silent = Vec::new();
    for _ in 0..MOST_CONNECTIONS + 5 {
        silent.push(TcpStream::connect(scene.address).await.unwrap());
    }
    assert_eq!(scene.get("/livez").await.0, 200);
}

#[tokio::test]
async fn shutdown_ends_the_server_and_frees_the_port() {
    let mut scene = Scene::new().await;
    assert_eq!(scene.get("/livez").await.0, 200);
    scene.stop.take().unwrap().send(()).unwrap();
    scene.server.await.unwrap();
    assert!(TcpStream::connect(scene.address).await.is_err());
}

#[tokio::test]
async fn a_port_in_use_is_named() {
    let taken = bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let address = taken.local_addr().unwrap();
    let error = bind(address).await.unwrap_err();
    let expected = format!(
        "admin.listen: {address} is in use by another process; choose another port, or \"off\""
    );
    assert_eq!(error.to_string(), expected);
    let foreign = bind("192.0.2.1:9090".parse().unwrap()).await.unwrap_err();
    assert!(
        foreign
            .to_string()
            .starts_with("admin.listen: cannot listen on 192.0.2.1:9090: "),
        "{foreign}"
    );
}
