//! A DynamoDB of its own for each test: dynoxide in this process, reached by the real SDK over loopback HTTP, and from
//! behind for what a test has to see raw.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::{
    Client, Config,
    config::{BehaviorVersion, Credentials, Region},
};
use dynoxide::Database;
use lease::{DynamoTable, TableSpec};
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::oneshot};

/// A running DynamoDB; it stops when dropped.
pub(crate) struct Dynamo {
    pub(crate) db: Database,
    pub(crate) client: Client,
    _stop: oneshot::Sender<()>,
}

impl Dynamo {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let db = Database::memory().expect("a database in memory");
        let (stop, stopped) = oneshot::channel::<()>();
        let served = dynoxide::server::serve_with_shutdown(listener, db.clone(), async {
            let _ = stopped.await;
        });
        tokio::spawn(served);
        let config = config()
            .endpoint_url(url)
            .http_client(aws_smithy_http_client::Builder::new().build_http())
            .build();
        Dynamo {
            db,
            client: Client::from_conf(config),
            _stop: stop,
        }
    }

    /// A new lease table.
    pub(crate) async fn table(&self, name: &str) -> DynamoTable {
        let table = DynamoTable::new(&self.client, name);
        let spec = TableSpec {
            create: true,
            ..TableSpec::default()
        };
        let ensured = table.ensure(&spec, no_wait).await.expect("a lease table");
        assert!(ensured.created, "{name} was there before");
        assert_eq!(ensured.warnings, []);
        table
    }

    /// Does a call as anyone else might send it, and gives back the answer.
    pub(crate) fn call(&self, operation: &str, request: Value) -> Result<Value, String> {
        macro_rules! call {
            ($method:ident) => {{
                let request = serde_json::from_value(request).expect("a request");
                let answer = self
                    .db
                    .$method(request)
                    .map_err(|error| error.to_string())?;
                Ok(serde_json::to_value(answer).expect("an answer"))
            }};
        }
        match operation {
            "CreateTable" => call!(create_table),
            "UpdateTable" => call!(update_table),
            "DescribeTable" => call!(describe_table),
            "PutItem" => call!(put_item),
            "UpdateItem" => call!(update_item),
            "DeleteItem" => call!(delete_item),
            "Scan" => call!(scan),
            other => panic!("{other} is not used by any test"),
        }
    }

    /// Puts a row as it is.
    pub(crate) fn put(&self, table: &str, row: &Value) {
        self.call("PutItem", json!({"TableName": table, "Item": row}))
            .expect("a row");
    }

    /// All rows, by key.
    pub(crate) fn rows(&self, table: &str) -> BTreeMap<String, Value> {
        let answer = self.call("Scan", json!({"TableName": table}));
        let mut answer = answer.expect("a table");
        let Value::Array(rows) = answer["Items"].take() else {
            panic!("no rows in {answer}");
        };
        rows.into_iter()
            .map(|row| (key_of(&row).to_owned(), normal(row)))
            .collect()
    }

    /// One row.
    pub(crate) fn row(&self, table: &str, key: &str) -> Option<Value> {
        self.rows(table).remove(key)
    }
}

/// The start of a client's configuration: no environment, no profile.
pub(crate) fn config() -> aws_sdk_dynamodb::config::Builder {
    Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("eu-central-1"))
        .credentials_provider(Credentials::new("id", "secret", None, None, "test"))
}

/// For tables that are ready at once.
pub(crate) async fn no_wait(_: std::time::Duration) {}

pub(crate) fn key_of(row: &Value) -> &str {
    row["leaseKey"]["S"].as_str().expect("a row with a key")
}

/// The same row in one spelling: sets have no order.
pub(crate) fn normal(mut row: Value) -> Value {
    for attribute in row.as_object_mut().expect("a row").values_mut() {
        if let Some(Value::Array(texts)) = attribute.get_mut("SS") {
            texts.sort_by_key(|text| text.as_str().map(str::to_owned));
        }
    }
    row
}
