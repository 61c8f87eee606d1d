//! A thousand idle shards in one process of the program itself: its memory over that of a worker with one shard, its
//! threads, and its CPU per poll – leases, rules and all – beside bare polls of the SDK at the same pace, in another
//! process and with the allocator that everybody has.
//!
//! `cargo bench -p shardkeeper --bench idle`
#![allow(clippy::disallowed_methods)] // a bench reads its arguments

mod rig;

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use rig::{
    bare,
    server::{Filling, SERVE, Server},
    usage,
};

const SHARDS: u32 = 1_000;
const SETTLE: Duration = Duration::from_secs(20);
const WINDOW: Duration = Duration::from_secs(40);

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        [SERVE, ..] => rig::server::serve(args.into_iter().skip(1)),
        [BARE, stream, kinesis] => bare(stream, kinesis),
        _ => compare(),
    }
}

fn compare() {
    let server = Server::start(&[("one", 1, Filling::Empty), ("many", SHARDS, Filling::Empty)]);
    let empty = observe(&mut Worker::start(&server, "one"));
    let many = observe(&mut Worker::start(&server, "many"));
    let bare = observe(&mut Bare::start(&server, "many"));
    let cores = std::thread::available_parallelism()
        .expect("a number")
        .get();
    rig::most("idle-1-memory", "MiB", empty.memory, 20.0);
    rig::most(
        "idle-1000-memory",
        "MiB over an empty worker",
        many.memory - empty.memory,
        64.0,
    );
    rig::most(
        "idle-1000-threads",
        "threads",
        many.threads,
        (cores + 4) as f64,
    );
    rig::ratio(
        "idle-1000-cpu",
        "CPU ms per poll",
        many.cpu_per_poll,
        bare.cpu_per_poll,
        1.1,
    );
}

/// What a side has used.
struct Used {
    memory: f64,
    threads: f64,
    cpu_per_poll: f64,
}

/// A process that polls.
trait Side {
    fn id(&self) -> u32;
    /// Its polls since it was started.
    fn polls(&mut self) -> u64;
}

/// Lets things settle, then measures a window.
fn observe(side: &mut impl Side) -> Used {
    let mut look = || (usage::cpu_of(side.id()), side.polls());
    std::thread::sleep(SETTLE);
    let (cpu, polls) = look();
    std::thread::sleep(WINDOW);
    let (cpu_after, polls_after) = look();
    assert!(polls_after > polls, "it does not poll");
    Used {
        memory: usage::memory_of(side.id()),
        threads: usage::status_of(side.id(), "Threads") as f64,
        cpu_per_poll: (cpu_after - cpu).as_secs_f64() * 1e3 / (polls_after - polls) as f64,
    }
}

/// `shardkeeper run` with the defaults.
struct Worker {
    child: Child,
    admin: String,
    config: std::path::PathBuf,
}

impl Worker {
    fn start(server: &Server, stream: &str) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let admin = free.local_addr().expect("bound").to_string();
        drop(free);
        let file = format!("shardkeeper-idle-{}-{stream}.toml", std::process::id());
        let config = std::env::temp_dir().join(file);
        let text = format!(
            "[app]\nname = \"idle-{stream}\"\n[[stream]]\nname = \"{stream}\"\nregion = \"us-east-1\"\nendpoint = \"{}\"\n\
             [lease]\nregion = \"us-east-1\"\nendpoint = \"{}\"\n[admin]\nlisten = \"{admin}\"\n[log]\nlevel = \"warn\"\n",
            server.kinesis, server.dynamodb,
        );
        std::fs::write(&config, text).expect("written");
        let child = Command::new(env!("CARGO_BIN_EXE_shardkeeper"))
            .args(["run", "--config"])
            .arg(&config)
            .env("AWS_ACCESS_KEY_ID", "local")
            .env("AWS_SECRET_ACCESS_KEY", "local")
            .stdout(Stdio::null())
            .spawn()
            .expect("started");
        Worker {
            child,
            admin,
            config,
        }
    }
}

impl Side for Worker {
    fn id(&self) -> u32 {
        self.child.id()
    }

    fn polls(&mut self) -> u64 {
        let mut socket = TcpStream::connect(&self.admin).expect("its admin server");
        let ask = "GET /metrics HTTP/1.1\r\nhost: worker\r\nconnection: close\r\n\r\n";
        socket.write_all(ask.as_bytes()).expect("sent");
        let mut text = String::new();
        socket.read_to_string(&mut text).expect("an answer");
        let counts = text
            .lines()
            .filter(|line| line.contains("get_records_total{"));
        let count = |line: &str| line.rsplit(' ').next()?.parse::<f64>().ok();
        counts.filter_map(count).sum::<f64>() as u64
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.config);
    }
}

/// The first argument that makes this program the bare polls.
const BARE: &str = "bare";

/// This program, as the bare polls. For each line on its standard input it says how many there were.
struct Bare(Child);

impl Bare {
    fn start(server: &Server, stream: &str) -> Self {
        let program = std::env::current_exe().expect("this program");
        let child = Command::new(program)
            .args([BARE, stream, &server.kinesis])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        Bare(child.expect("started"))
    }
}

impl Side for Bare {
    fn id(&self) -> u32 {
        self.0.id()
    }

    fn polls(&mut self) -> u64 {
        let ask = self.0.stdin.as_mut().expect("piped");
        ask.write_all(b"\n").expect("asked");
        // Nothing is lost with the reader's buffer: one line is the whole answer.
        let mut line = String::new();
        BufReader::new(self.0.stdout.as_mut().expect("piped"))
            .read_line(&mut line)
            .expect("an answer");
        line.trim().parse().expect("a number")
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn bare(stream: &str, kinesis: &str) {
    let runtime = rig::runtime();
    let polls = Arc::new(AtomicU64::new(0));
    runtime.block_on(poll_all(stream, kinesis, &polls));
    for _ in std::io::stdin().lock().lines() {
        println!("{}", polls.load(Ordering::Relaxed));
    }
}

/// Starts a loop for each shard.
async fn poll_all(stream: &str, kinesis: &str, polls: &Arc<AtomicU64>) {
    let client = bare::client(kinesis);
    for shard in bare::shards(&client, stream).await {
        let (client, polls, stream) = (client.clone(), polls.clone(), stream.to_owned());
        tokio::spawn(async move {
            let mut iterator = bare::iterator(&client, &stream, shard).await;
            while let Some(next) = iterator {
                polls.fetch_add(1, Ordering::Relaxed);
                let page = client
                    .get_records()
                    .shard_iterator(next)
                    .limit(10_000)
                    .send()
                    .await;
                iterator = page.expect("a page").next_shard_iterator;
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        });
    }
}
