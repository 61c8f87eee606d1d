//! An embedded AWS, a folder, and the program with an environment of its own.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    process::Stdio,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use aws_sdk_dynamodb::types::AttributeValue;
use checkpoint::{HashRange, KinesisRecord, UserRecord, deaggregate_range};
use shardkeeper::{
    clock::system_wall,
    local::{
        LocalAws, LocalOptions,
        faults::Rule,
        model::{CreateStream, ModelOptions},
    },
    source::{From, Source as _, SourceError, kinesis::KinesisSource},
};
use tokio::{io::AsyncWriteExt as _, process::Command, runtime::Runtime};

/// No process of these tests takes as long, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);
const REGION: &str = "us-east-1";

pub(crate) struct World {
    pub(crate) runtime: Runtime,
    pub(crate) aws: LocalAws,
    pub(crate) folder: PathBuf,
}

/// How a process ended.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Done {
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(
            self.code,
            Some(code),
            "stdout: {}\nstderr: {}",
            self.out,
            self.err
        );
        self
    }

    /// Standard error holds all of these.
    #[track_caller]
    pub(crate) fn says(self, words: &[&str]) -> Self {
        for word in words {
            assert!(self.err.contains(word), "{word:?} is not in: {}", self.err);
        }
        self
    }

    /// Standard output holds all of these.
    #[track_caller]
    pub(crate) fn prints(self, words: &[&str]) -> Self {
        for word in words {
            assert!(self.out.contains(word), "{word:?} is not in: {}", self.out);
        }
        self
    }

    /// Standard output as one JSON value a line.
    #[track_caller]
    pub(crate) fn json(&self) -> Vec<serde_json::Value> {
        let parse =
            |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        self.out.lines().map(parse).collect()
    }
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

    /// The program in the folder, with credentials, and nothing else of this process's AWS settings.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.command_without_credentials(arguments);
        command
            .env("AWS_ACCESS_KEY_ID", "test")
            .env("AWS_SECRET_ACCESS_KEY", "test");
        command
    }

    pub(crate) fn command_without_credentials(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shardkeeper"));
        command
            .args(arguments)
            .current_dir(&self.folder)
            .env_clear()
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .env("AWS_CONFIG_FILE", self.folder.join("no-config"))
            .env(
                "AWS_SHARED_CREDENTIALS_FILE",
                self.folder.join("no-credentials"),
            )
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Done {
        self.finish(self.command(arguments))
    }

    pub(crate) fn finish(&self, mut command: Command) -> Done {
        self.runtime.block_on(async {
            let output = tokio::time::timeout(PATIENCE, command.output()).await;
            done(output.expect("it ends").expect("it starts"))
        })
    }

    /// With this on standard input.
    pub(crate) fn feed(&self, arguments: &[&str], input: &[u8]) -> Done {
        let mut command = self.command(arguments);
        self.runtime.block_on(async {
            let mut child = command.stdin(Stdio::piped()).spawn().expect("it starts");
            let mut stdin = child.stdin.take().expect("it is piped");
            // It may end before it has read everything.
            let write = async move { drop(stdin.write_all(input).await) };
            let (output, ()) = tokio::join!(
                tokio::time::timeout(PATIENCE, child.wait_with_output()),
                write
            );
            done(output.expect("it ends").expect("it can be waited for"))
        })
    }

    /// `put` into a stream of the embedded Kinesis.
    pub(crate) fn put(&self, stream: &str, more: &[&str], input: &[u8]) -> Done {
        let url = self.aws.kinesis_url();
        let mut arguments = vec![
            "put",
            "--stream",
            stream,
            "--region",
            REGION,
            "--endpoint",
            &url,
        ];
        arguments.extend(more);
        self.feed(&arguments, input)
    }

    /// Every Kinesis record of a stream as the SDK reads it, by shard.
    pub(crate) fn kinesis_records(
        &self,
        stream: &str,
    ) -> BTreeMap<String, (HashRange, Vec<KinesisRecord>)> {
        let source = KinesisSource::new(self.kinesis(), stream.to_owned(), None);
        self.runtime.block_on(async {
            let mut shards = BTreeMap::new();
            for shard in source.list_shards().await.expect("shards") {
                let mut records = Vec::new();
                let mut next = source.iterator(&shard.id, &From::TrimHorizon).await.ok();
                while let Some(iterator) = next {
                    let page = loop {
                        match source.records(&iterator, 10_000).await {
                            // A shard gives two megabytes a second, to a test as to anybody.
                            Err(SourceError::Throttled(_)) => {
                                tokio::time::sleep(Duration::from_millis(100)).await;
                            }
                            page => break page.expect("records"),
                        }
                    };
                    next = page.next.filter(|_| !page.records.is_empty());
                    records.extend(page.records);
                }
                shards.insert(shard.id.to_string(), (shard.range, records));
            }
            shards
        })
    }

    /// Every user record of a stream as a consumer gets it, by shard.
    pub(crate) fn user_records(&self, stream: &str) -> BTreeMap<String, Vec<UserRecord>> {
        let unpack = |(id, (range, records)): (String, (HashRange, Vec<KinesisRecord>))| {
            (id, deaggregate_range(records, range.start, range.end))
        };
        self.kinesis_records(stream)
            .into_iter()
            .map(unpack)
            .collect()
    }

    pub(crate) fn kinesis(&self) -> aws_sdk_kinesis::Client {
        use aws_sdk_kinesis::config::{BehaviorVersion, Credentials, Region};
        let config = aws_sdk_kinesis::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new(REGION))
            .credentials_provider(Credentials::new("test", "test", None, None, "test"))
            .endpoint_url(self.aws.kinesis_url())
            .http_client(aws_smithy_http_client::Builder::new().build_http())
            .build();
        aws_sdk_kinesis::Client::from_conf(config)
    }

    pub(crate) fn dynamodb(&self) -> aws_sdk_dynamodb::Client {
        use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
        let config = aws_sdk_dynamodb::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new(REGION))
            .credentials_provider(Credentials::new("test", "test", None, None, "test"))
            .endpoint_url(self.aws.dynamodb_url())
            .http_client(aws_smithy_http_client::Builder::new().build_http())
            .build();
        aws_sdk_dynamodb::Client::from_conf(config)
    }

    /// A table whose only key is `key`, a string.
    pub(crate) fn table(&self, name: &str, key: &str) {
        use aws_sdk_dynamodb::types::{
            AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
        };
        let attribute = AttributeDefinition::builder()
            .attribute_name(key)
            .attribute_type(ScalarAttributeType::S)
            .build()
            .expect("complete");
        let element = KeySchemaElement::builder()
            .attribute_name(key)
            .key_type(KeyType::Hash)
            .build()
            .expect("complete");
        let call = self
            .dynamodb()
            .create_table()
            .table_name(name)
            .attribute_definitions(attribute)
            .key_schema(element)
            .billing_mode(BillingMode::PayPerRequest);
        self.runtime.block_on(call.send()).expect("a table");
    }

    pub(crate) fn row(
        &self,
        table: &str,
        attributes: impl IntoIterator<Item = (String, AttributeValue)>,
    ) {
        let item = attributes.into_iter().collect();
        let call = self
            .dynamodb()
            .put_item()
            .table_name(table)
            .set_item(Some(item));
        self.runtime.block_on(call.send()).expect("a row");
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

pub(crate) fn done(output: std::process::Output) -> Done {
    Done {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).expect("text"),
        err: String::from_utf8(output.stderr).expect("text"),
    }
}

pub(crate) fn text(data: &[u8]) -> String {
    String::from_utf8(data.to_vec()).expect("text")
}
