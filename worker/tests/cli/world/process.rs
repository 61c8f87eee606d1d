//! The program as a process: how it is started, told to stop, and what it said.

use std::{ffi::OsStr, process::Stdio, time::Duration};

use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::AsyncWriteExt as _,
    process::{Child, Command},
};

use super::{REGION, World};

/// No process of these tests takes as long, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

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

    /// The JSON value on the first line of standard output.
    #[track_caller]
    pub(crate) fn summary(&self) -> serde_json::Value {
        self.json().swap_remove(0)
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
    /// The program in the folder, with credentials, and nothing else of this process's AWS settings.
    pub(crate) fn command(&self, arguments: &[impl AsRef<OsStr>]) -> Command {
        let mut command = self.command_without_credentials(arguments);
        command
            .env("AWS_ACCESS_KEY_ID", "test")
            .env("AWS_SECRET_ACCESS_KEY", "test");
        command
    }

    pub(crate) fn command_without_credentials(&self, arguments: &[impl AsRef<OsStr>]) -> Command {
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
    pub(crate) fn feed(&self, mut command: Command, input: &[u8]) -> Done {
        self.runtime.block_on(async {
            let mut child = command.stdin(Stdio::piped()).spawn().expect("it starts");
            let mut stdin = child.stdin.take().expect("it is piped");
            // It may end before it has read everything.
            let write = async move { drop(stdin.write_all(input).await) };
            let (done, ()) = tokio::join!(wait(child), write);
            done
        })
    }

    /// Leaves it running.
    pub(crate) fn spawn(&self, mut command: Command) -> Child {
        let _runtime = self.runtime.enter();
        command.spawn().expect("it starts")
    }

    /// Waits for the end of one that was left running.
    pub(crate) fn ended(&self, child: Child) -> Done {
        self.runtime.block_on(wait(child))
    }

    /// `put` into a stream of the embedded Kinesis, with further arguments between spaces.
    pub(crate) fn put(&self, stream: &str, more: &str, input: &[u8]) -> Done {
        self.feed(self.put_command(stream, more), input)
    }

    pub(crate) fn put_command(&self, stream: &str, more: &str) -> Command {
        self.command(&self.put_arguments(stream, more))
    }

    /// The arguments of `put` into a stream of the embedded Kinesis.
    pub(crate) fn put_arguments(&self, stream: &str, more: &str) -> Vec<String> {
        let url = self.aws.kinesis_url();
        let own = [
            "put",
            "--stream",
            stream,
            "--region",
            REGION,
            "--endpoint",
            &url,
        ];
        let all = own.into_iter().chain(more.split_whitespace());
        all.map(str::to_owned).collect()
    }
}

/// The end of a process, however long it takes within reason.
pub(crate) async fn wait(child: Child) -> Done {
    let output = tokio::time::timeout(PATIENCE, child.wait_with_output()).await;
    done(output.expect("it ends").expect("it can be waited for"))
}

fn done(output: std::process::Output) -> Done {
    Done {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).expect("text"),
        err: String::from_utf8(output.stderr).expect("text"),
    }
}

pub(crate) fn signal(child: &Child, signal: Signal) {
    let id = i32::try_from(child.id().expect("it lives")).expect("a process id");
    kill_process(Pid::from_raw(id).expect("not zero"), signal).expect("it lives");
}
