//! What the lease table shows: who leads, who reads what.

use std::{collections::BTreeMap, time::Duration};

use lease::{Consistency, DynamoTable, Lease, Table as _};

use super::World;

impl World {
    /// A client of the embedded DynamoDB.
    pub fn dynamodb(&self) -> aws_sdk_dynamodb::Client {
        let config = aws_sdk_dynamodb::Config::builder()
            .behavior_version(aws_sdk_dynamodb::config::BehaviorVersion::latest())
            .region(aws_sdk_dynamodb::config::Region::new("us-east-1"))
            .endpoint_url(self.aws.dynamodb_url())
            .credentials_provider(aws_sdk_dynamodb::config::Credentials::new(
                "test", "test", None, None, "test",
            ))
            .http_client(aws_smithy_http_client::Builder::new().build_http())
            .build();
        aws_sdk_dynamodb::Client::from_conf(config)
    }

    /// The lease table.
    pub fn table(&self) -> DynamoTable {
        DynamoTable::new(&self.dynamodb(), "orders-app")
    }

    /// The rows of the lease table; none while it cannot be read.
    pub fn leases(&self) -> Vec<Lease> {
        self.runtime
            .block_on(self.table().list(Consistency::Strong))
            .map(|view| view.leases)
            .unwrap_or_default()
    }

    /// Who leads, by the lock row.
    pub fn leader(&self) -> Option<String> {
        let view = self
            .runtime
            .block_on(self.table().list(Consistency::Strong))
            .ok()?;
        Some(view.lock?.owner.to_string())
    }

    /// How many unfinished leases each worker reads.
    pub fn shares(&self) -> BTreeMap<String, usize> {
        let mut shares = BTreeMap::new();
        for lease in self.leases().iter().filter(|lease| !lease.ended()) {
            if let Some(reader) = lease.reader().filter(|_| !lease.handing_over()) {
                *shares.entry(reader.to_string()).or_default() += 1;
            }
        }
        shares
    }

    /// Waits until these workers share all shards evenly.
    pub fn balanced(&mut self, workers: &[&str], shards: usize) {
        let fair = |shares: BTreeMap<String, usize>| {
            shares.len() == workers.len()
                && shares.values().sum::<usize>() == shards
                && shares.values().max().unwrap_or(&0) - shares.values().min().unwrap_or(&0) <= 1
        };
        self.until("an even share", Duration::from_secs(20), |world| {
            fair(world.shares())
        });
    }
}
