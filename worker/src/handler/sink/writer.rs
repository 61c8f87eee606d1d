//! Loop: writes lines and says when they are safe.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::Path,
};

use tokio::sync::{mpsc, oneshot};

/// Whole lines, and who waits for them.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) lines: Vec<u8>,
    pub(super) done: oneshot::Sender<Result<(), String>>,
}

/// What is written to.
#[derive(Debug)]
pub(super) struct Target {
    to: To,
    /// The last write broke off inside a line.
    torn: bool,
}

#[derive(Debug)]
enum To {
    Stdout,
    File(File),
}

/// Why nothing more is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriterEnd {
    /// Nobody can send any more.
    Done,
    /// Whoever read the standard output is gone (`EPIPE`), and will not come back. Who still waits is told so.
    ReaderGone,
}

/// Bytes that are written with one flush at most.
const AT_ONCE: usize = 8 << 20;

impl Target {
    pub(super) fn stdout() -> Self {
        Target {
            to: To::Stdout,
            torn: false,
        }
    }

    /// Opens for appending. A last line without its break was torn off by a crash.
    pub(super) fn file(path: &Path) -> io::Result<Self> {
        if let Some(folder) = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty())
        {
            std::fs::create_dir_all(folder)?;
        }
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(path)?;
        let mut last = [b'\n'];
        if file.seek(SeekFrom::End(0))? > 0 {
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
        }
        Ok(Target {
            to: To::File(file),
            torn: last != [b'\n'],
        })
    }

    fn is_stdout(&self) -> bool {
        matches!(self.to, To::Stdout)
    }

    fn write(&mut self, jobs: &[Job]) -> io::Result<()> {
        let lead: &[u8] = if self.torn { b"\n" } else { b"" };
        // Until it is known to have gone well.
        self.torn = true;
        let lines = std::iter::once(lead).chain(jobs.iter().map(|job| job.lines.as_slice()));
        match &mut self.to {
            To::Stdout => {
                let mut out = io::stdout().lock();
                lines.into_iter().try_for_each(|part| out.write_all(part))?;
                out.flush()?;
            }
            To::File(file) => {
                lines
                    .into_iter()
                    .try_for_each(|part| file.write_all(part))?;
                file.sync_data()?;
            }
        }
        self.torn = false;
        Ok(())
    }
}

/// Writes what comes until nobody can send any more, or nobody reads any more.
pub(super) async fn write(mut target: Target, mut incoming: mpsc::Receiver<Job>) -> WriterEnd {
    while let Some(first) = incoming.recv().await {
        let mut bytes = first.lines.len();
        let mut jobs = vec![first];
        while bytes < AT_ONCE
            && let Ok(job) = incoming.try_recv()
        {
            bytes += job.lines.len();
            jobs.push(job);
        }
        // Whoever waits no more has lost its shard, and another worker writes these lines.
        jobs.retain(|job| !job.done.is_closed());
        if jobs.is_empty() {
            continue;
        }
        let task = tokio::task::spawn_blocking(move || {
            let result = target.write(&jobs);
            (target, jobs, result)
        });
        // It does not panic; it is only cancelled when the runtime ends.
        let Ok((back, jobs, result)) = task.await else {
            return WriterEnd::Done;
        };
        target = back;
        let gone = target.is_stdout()
            && matches!(&result, Err(error) if error.kind() == io::ErrorKind::BrokenPipe);
        let result = result.map_err(|error| format!("cannot write: {error}"));
        for job in jobs {
            // A consumer that was cut off waits no more.
            let _ = job.done.send(result.clone());
        }
        if gone {
            return WriterEnd::ReaderGone;
        }
    }
    WriterEnd::Done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_nobody_waits_for_any_more_is_not_written() {
        let folder = std::env::temp_dir().join(format!("shardkeeper-cut-{}", std::process::id()));
        let path = folder.join("out.jsonl");
        let (jobs, incoming) = mpsc::channel(4);
        let (cut_off, gone) = oneshot::channel();
        let (done, written) = oneshot::channel();
        for (done, lines) in [(cut_off, "{\"lost\":1}\n"), (done, "{\"held\":2}\n")] {
            let lines = lines.as_bytes().to_vec();
            jobs.send(Job { lines, done }).await.expect("listens");
        }
        drop((gone, jobs));
        write(Target::file(&path).expect("opens"), incoming).await;
        assert_eq!(written.await, Ok(Ok(())));
        let text = std::fs::read_to_string(&path).expect("reads");
        assert_eq!(text, "{\"held\":2}\n");
        std::fs::remove_dir_all(&folder).expect("cleans up");
    }

    #[tokio::test]
    async fn a_torn_line_is_closed_before_the_next_one() {
        let folder = std::env::temp_dir().join(format!("shardkeeper-sink-{}", std::process::id()));
        let path = folder.join("out.jsonl");
        std::fs::create_dir_all(&folder).expect("a temporary folder");
        std::fs::write(&path, b"{\"whole\":1}\n{\"torn").expect("a file");
        let (jobs, incoming) = mpsc::channel(4);
        let task = tokio::spawn(write(Target::file(&path).expect("opens"), incoming));
        let (done, written) = oneshot::channel();
        let lines = b"{\"next\":2}\n".to_vec();
        jobs.send(Job { lines, done }).await.expect("listens");
        assert_eq!(written.await, Ok(Ok(())));
        drop(jobs);
        task.await.expect("ends");
        let text = std::fs::read_to_string(&path).expect("reads");
        assert_eq!(text, "{\"whole\":1}\n{\"torn\n{\"next\":2}\n");
        std::fs::remove_dir_all(&folder).expect("cleans up");
    }
}
