//! The workers as child processes, and the files they write to.

use std::{
    collections::BTreeMap,
    fs,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region, retry::RetryConfig};
use lease::DynamoTable;
use rustix::process::{Pid, Signal, kill_process};

use super::{DemoError, STREAM, io, witness::Tail};
use crate::local::{
    LocalAws,
    model::{CreateStream, ModelOptions},
};

pub(super) struct Stage {
    folder: PathBuf,
    endpoint: String,
    workers: BTreeMap<&'static str, Worker>,
    /// What each worker has written.
    pub(super) files: Vec<Tail>,
}

struct Worker {
    process: Child,
    /// It was killed, or asked to stop.
    told: bool,
}

const APP: &str = "demo";
const SHARDS: u32 = 4;
const FAILOVER: &str = "3s";

impl Stage {
    pub(super) fn new(aws: &LocalAws) -> Result<Self, DemoError> {
        let folder = std::env::temp_dir().join(format!("shardkeeper-demo-{}", std::process::id()));
        fs::create_dir_all(&folder).map_err(io(format!("cannot make {}", folder.display())))?;
        aws.kinesis().lock().create_stream(
            CreateStream::provisioned(STREAM, SHARDS),
            crate::clock::system_wall(),
        )?;
        let region = ModelOptions::default().region;
        let config = format!(
            "[app]\nname = \"{APP}\"\n\n\
             [[stream]]\nname = \"{STREAM}\"\nregion = \"{region}\"\nendpoint = \"{}\"\n\n\
             [lease]\nregion = \"{region}\"\nendpoint = \"{}\"\nfailover = \"{FAILOVER}\"\n\n\
             [checkpoint]\nevery = \"1s\"\n\n\
             [handler]\nkind = \"sink\"\nsink = \"jsonl\"\npath = '{}'\n\n\
             [admin]\nlisten = \"off\"\n",
            aws.kinesis_url(),
            aws.dynamodb_url(),
            folder.join("{worker}.jsonl").display(),
        );
        let file = folder.join("worker.toml");
        fs::write(&file, config).map_err(io(format!("cannot write {}", file.display())))?;
        Ok(Stage {
            folder,
            endpoint: aws.dynamodb_url(),
            workers: BTreeMap::new(),
            files: Vec::new(),
        })
    }

    /// What is on the stage, for the first lines.
    pub(super) fn summary(&self) -> String {
        format!(
            "stream {STREAM:?} of {SHARDS} shards and lease table {APP:?} on the embedded AWS; failover time {FAILOVER}; files in {}",
            self.folder.display()
        )
    }

    /// The lease table, to look at.
    pub(super) async fn table(&self) -> DynamoTable {
        let config = aws_sdk_dynamodb::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new(ModelOptions::default().region))
            .endpoint_url(&self.endpoint)
            .credentials_provider(Credentials::new("demo", "demo", None, None, "demo"))
            .retry_config(RetryConfig::disabled())
            .http_client(aws_smithy_http_client::Builder::new().build_http())
            .build();
        DynamoTable::new(&aws_sdk_dynamodb::Client::from_conf(config), APP)
    }

    pub(super) fn start(&mut self, name: &'static str) -> Result<u32, DemoError> {
        let program = std::env::current_exe().map_err(io("cannot find this program"))?;
        let log = self.folder.join(format!("{name}.log"));
        let log = fs::File::create(&log).map_err(io(format!("cannot write {}", log.display())))?;
        let process = Command::new(program)
            .args(["run", "--config"])
            .arg(self.folder.join("worker.toml"))
            .args(["--set", &format!("app.worker_id=\"{name}\"")])
            .env("AWS_ACCESS_KEY_ID", "demo")
            .env("AWS_SECRET_ACCESS_KEY", "demo")
            .env_remove("AWS_PROFILE")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .map_err(io(format!("cannot start {name}")))?;
        let pid = process.id();
        self.workers.insert(
            name,
            Worker {
                process,
                told: false,
            },
        );
        self.files
            .push(Tail::new(name, self.folder.join(format!("{name}.jsonl"))));
        Ok(pid)
    }

    /// SIGKILL.
    pub(super) fn kill(&mut self, name: &str) -> Result<(), DemoError> {
        let Some(worker) = self.workers.get_mut(name) else {
            return Ok(());
        };
        worker.told = true;
        worker
            .process
            .kill()
            .map_err(io(format!("cannot kill {name}")))
    }

    /// SIGTERM.
    pub(super) fn stop(&mut self, name: &str) -> Result<(), DemoError> {
        let Some(worker) = self.workers.get_mut(name) else {
            return Ok(());
        };
        worker.told = true;
        terminate(&worker.process).map_err(io(format!("cannot stop {name}")))
    }

    /// A worker that ends without being told to spoils the show.
    pub(super) fn check(&mut self) -> Result<(), DemoError> {
        for (name, worker) in &mut self.workers {
            let status = worker
                .process
                .try_wait()
                .map_err(io(format!("cannot watch {name}")))?;
            if let Some(status) = status.filter(|_| !worker.told) {
                return Err(DemoError::WorkerEnded {
                    worker: (*name).to_owned(),
                    status: format!(
                        "{status}; its log is {}",
                        self.folder.join(format!("{name}.log")).display()
                    ),
                });
            }
        }
        Ok(())
    }

    /// Stops whoever still works, and waits for all.
    pub(super) async fn stop_all(&mut self) -> Result<(), DemoError> {
        let names: Vec<&'static str> = self.workers.keys().copied().collect();
        for name in &names {
            if !self.workers[name].told {
                self.stop(name)?;
            }
        }
        for _ in 0..300 {
            let mut alive = false;
            for worker in self.workers.values_mut() {
                alive |= worker
                    .process
                    .try_wait()
                    .map_err(io("cannot watch a worker"))?
                    .is_none();
            }
            if !alive {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    /// Files are kept when they are evidence.
    pub(super) fn clean_up(&self, ok: bool) {
        if ok {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

fn terminate(process: &Child) -> std::io::Result<()> {
    let pid = i32::try_from(process.id()).ok().and_then(Pid::from_raw);
    match pid {
        Some(pid) => Ok(kill_process(pid, Signal::TERM)?),
        None => Ok(()),
    }
}

impl Drop for Stage {
    /// No worker outlives the demo.
    fn drop(&mut self) {
        for worker in self.workers.values_mut() {
            let _ = worker.process.kill();
            let _ = worker.process.wait();
        }
    }
}
