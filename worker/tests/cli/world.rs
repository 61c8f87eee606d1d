//! An embedded AWS, a folder, and the program with an environment of its own.

mod aws;
mod process;

use std::{
    path::PathBuf,
    sync::atomic::{AtomicU32, Ordering},
};

use shardkeeper::{
    clock::system_wall,
    local::{
        LocalAws, LocalOptions,
        faults::Rule,
        model::{CreateStream, ModelOptions},
    },
};
use tokio::runtime::Runtime;

pub(crate) use process::{signal, wait};

const REGION: &str = "us-east-1";

pub(crate) struct World {
    pub(crate) runtime: Runtime,
    pub(crate) aws: LocalAws,
    pub(crate) folder: PathBuf,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(ModelOptions::default())
    }

    pub(crate) fn with(model: ModelOptions) -> Self {
        static WORLDS: AtomicU32 = AtomicU32::new(0);
        let runtime = Runtime::new().expect("a runtime");
        let options = LocalOptions {
            model,
            ..LocalOptions::default()
        };
        let aws = runtime
            .block_on(LocalAws::start(options))
            .expect("the embedded AWS starts");
        let number = WORLDS.fetch_add(1, Ordering::Relaxed);
        let folder =
            std::env::temp_dir().join(format!("shardkeeper-cli-{}-{number}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("a folder");
        let world = World {
            runtime,
            aws,
            folder,
        };
        world.file("worker.toml", &world.config("orders", "orders-app"));
        world
    }

    /// A configuration of one stream.
    pub(crate) fn config(&self, stream: &str, app: &str) -> String {
        format!(
            "[app]\nname = \"{app}\"\n\n[[stream]]\nname = \"{stream}\"\nregion = \"{REGION}\"\nendpoint = \"{}\"\n\n\
             [lease]\nregion = \"{REGION}\"\nendpoint = \"{}\"\nfailover = \"1s\"\n\n[admin]\nlisten = \"off\"\n",
            self.aws.kinesis_url(),
            self.aws.dynamodb_url()
        )
    }

    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.join(name);
        std::fs::write(&path, text).expect("a file");
        path
    }

    pub(crate) fn stream(&self, name: &str, shards: u32) {
        let request = CreateStream::provisioned(name, shards);
        let created = self
            .aws
            .kinesis()
            .lock()
            .create_stream(request, system_wall());
        created.expect("a stream");
    }

    pub(crate) fn fault(&self, rule: Rule) {
        self.aws
            .faults()
            .add(rule, system_wall())
            .expect("a good rule");
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

pub(crate) fn text(data: &[u8]) -> String {
    String::from_utf8(data.to_vec()).expect("text")
}
