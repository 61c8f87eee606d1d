//! The embedded AWS: an exact in-memory Kinesis and a DynamoDB, for tests, for the demo, and for trying things out.
//!
//! ```text
//!   Kinesis SDK ──▶ http ─▶ front ─▶ model        (pure; also usable without HTTP)
//!                            ▲ faults (one set of rules for both services)
//!   DynamoDB SDK ─▶ http ─▶ gate ─▶ dynoxide      (on a thread of its own: its SQLite blocks)
//! ```
//!
//! Nothing is stored on disk; requests are not authenticated. It is for one machine.

pub mod clock;
pub mod faults;
mod front;
mod gate;
mod http;
pub mod model;
mod shared;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;

use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use self::clock::Clock;
use self::faults::{Faults, Service};
use self::front::Front;
use self::gate::Gate;
use self::model::{Kinesis, ModelOptions};
pub use self::shared::SharedKinesis;

/// How to start a [`LocalAws`].
#[derive(Clone)]
pub struct LocalOptions {
    /// Where Kinesis listens; port 0 picks a free one.
    pub kinesis: SocketAddr,
    /// Where DynamoDB listens; port 0 picks a free one.
    pub dynamodb: SocketAddr,
    /// Durations and limits of Kinesis.
    pub model: ModelOptions,
    /// Seed of the draws of fault rules.
    pub seed: u64,
    /// What tells the Kinesis and the fault rules the time.
    pub clock: Clock,
}

impl Default for LocalOptions {
    fn default() -> Self {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        Self {
            kinesis: any,
            dynamodb: any,
            model: ModelOptions::default(),
            seed: 0,
            clock: clock::system(),
        }
    }
}

/// Why the embedded AWS does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address is taken or not ours.
    #[error("{service} cannot listen on {address}")]
    Listen {
        /// Whose address it is.
        service: &'static str,
        /// The address.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// The embedded DynamoDB does not open.
    #[error("the embedded DynamoDB does not start: {0}")]
    Database(String),
    /// The thread of the embedded DynamoDB does not start.
    #[error("the thread of the embedded DynamoDB does not start")]
    Thread(#[source] io::Error),
}

/// A running embedded AWS; dropping it stops it.
#[derive(Debug)]
pub struct LocalAws {
    kinesis_address: SocketAddr,
    dynamodb_address: SocketAddr,
    kinesis: SharedKinesis,
    faults: Faults,
    stop: watch::Sender<bool>,
    servers: [JoinHandle<()>; 2],
    database: Database,
}

impl LocalAws {
    /// Starts both services on the current tokio runtime.
    ///
    /// # Errors
    /// [`StartError`]; nothing is left running then.
    pub async fn start(options: LocalOptions) -> Result<Self, StartError> {
        let LocalOptions {
            kinesis,
            dynamodb,
            model,
            seed,
            clock,
        } = options;
        let (kinesis_listener, kinesis_address) = listen(Service::Kinesis, kinesis).await?;
        let (dynamodb_listener, dynamodb_address) = listen(Service::DynamoDb, dynamodb).await?;
        let database = Database::start()?;

        let (stop, stopped) = watch::channel(false);
        let kinesis = SharedKinesis::new(Kinesis::new(model));
        let faults = Faults::new(seed);
        let front = Front {
            kinesis: kinesis.clone(),
            faults: faults.clone(),
            clock: Arc::clone(&clock),
            requests: Arc::default(),
        };
        let gate = Gate {
            upstream: database.address,
            faults: faults.clone(),
            clock,
            recoverable: Arc::default(),
        };
        let servers = [
            tokio::spawn(http::serve(kinesis_listener, stopped.clone(), move || {
                front.clone()
            })),
            tokio::spawn(http::serve(dynamodb_listener, stopped, move || {
                gate.connection()
            })),
        ];
        Ok(Self {
            kinesis_address,
            dynamodb_address,
            kinesis,
            faults,
            stop,
            servers,
            database,
        })
    }

    /// The endpoint URL of Kinesis.
    #[must_use]
    pub fn kinesis_url(&self) -> String {
        format!("http://{}", self.kinesis_address)
    }

    /// The endpoint URL of DynamoDB.
    #[must_use]
    pub fn dynamodb_url(&self) -> String {
        format!("http://{}", self.dynamodb_address)
    }

    /// The Kinesis itself, for use without HTTP.
    #[must_use]
    pub fn kinesis(&self) -> SharedKinesis {
        self.kinesis.clone()
    }

    /// The fault rules of both services.
    #[must_use]
    pub fn faults(&self) -> Faults {
        self.faults.clone()
    }

    /// Stops both services: running answers are completed, subscriptions cut, the ports freed.
    pub async fn shutdown(self) {
        self.stop.send_replace(true);
        for server in self.servers {
            if let Err(error) = server.await {
                tracing::warn!(%error, "a server of the embedded AWS failed");
            }
        }
        self.database.stop();
    }
}

async fn listen(
    service: Service,
    address: SocketAddr,
) -> Result<(TcpListener, SocketAddr), StartError> {
    let service = match service {
        Service::Kinesis => "Kinesis",
        Service::DynamoDb => "DynamoDB",
    };
    let failed = |source| StartError::Listen {
        service,
        address,
        source,
    };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}

/// The embedded DynamoDB on a thread of its own; dropping it stops it.
#[derive(Debug)]
struct Database {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
}

impl Database {
    fn start() -> Result<Self, StartError> {
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let failed = |source| StartError::Listen {
            service: "the embedded DynamoDB",
            address,
            source,
        };
        let listener = std::net::TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let database =
            dynoxide::Database::memory().map_err(|e| StartError::Database(e.to_string()))?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(StartError::Thread)?;
        let (stop, stopped) = oneshot::channel();
        let serve = async move {
            let listener = TcpListener::from_std(listener).map_err(|e| e.to_string())?;
            // The sender is dropped, not used: that too ends the wait.
            let server = dynoxide::server::serve_with_shutdown(listener, database, async {
                drop(stopped.await)
            });
            server.await
        };
        let run = move || {
            if let Err(error) = runtime.block_on(serve) {
                tracing::error!(%error, "the embedded DynamoDB failed");
            }
        };
        thread::Builder::new()
            .name("local-dynamodb".to_owned())
            .spawn(run)
            .map_err(StartError::Thread)?;
        Ok(Self { address, stop })
    }

    fn stop(self) {
        drop(self.stop);
    }
}
