//! Tries every permission a worker needs on its table, and changes nothing.

use aws_sdk_dynamodb::{
    config::http::HttpResponse,
    error::{ProvideErrorMetadata, SdkError},
};

use super::{
    DynamoTable,
    error::{self, Failure},
    expression::Expression,
    item::{self, Item, LEASE_KEY},
    request::Request,
    shape,
};
use crate::table::TableError;

/// The key of a row that is never written.
const NO_ROW: &str = "shardkeeper-check";

/// What a worker may do with its table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The table is there. `None`: that could not be found out.
    pub exists: Option<bool>,
    /// Why it can be no lease table, by its key. `None`: it can, or that could not be found out.
    pub foreign: Option<String>,
    /// Every permission, in the order in which a worker needs them.
    pub permissions: Vec<Permission>,
}

/// One permission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permission {
    /// The action, as a policy names it.
    pub action: &'static str,
    /// What the try showed.
    pub access: Access,
}

/// What a try showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// The action is allowed. Of a table that does not exist, too: AWS looks at the permission first.
    Granted,
    /// The action is refused; why.
    Refused(String),
    /// There was no answer that tells, such as when throttled or not connected; what happened.
    Unclear(String),
}

impl Check {
    /// Whether every permission was found to be granted.
    pub fn all_granted(&self) -> bool {
        self.permissions
            .iter()
            .all(|permission| permission.access == Access::Granted)
    }
}

impl DynamoTable {
    /// Tries to describe, to read and to write the table. Writes have a condition that no row can fulfil.
    ///
    /// Not tried, since it cannot be without an effect: making the table, its index, and its point-in-time recovery.
    pub async fn check(&self) -> Check {
        let described = self.client.describe_table().table_name(&self.name);
        let described = described.send().await;
        let table = described.as_ref().ok().and_then(|answer| answer.table());
        let foreign = table.and_then(shape::foreign_key);
        let described = outcome("DescribeTable", described);
        let scan = self.client.scan().table_name(&self.name).limit(1);
        let get = self.client.get_item().table_name(&self.name);
        let get = get.set_key(Some(item::key(NO_ROW)));
        let tries = [
            ("dynamodb:DescribeTable", described.clone()),
            ("dynamodb:Scan", outcome("Scan", scan.send().await)),
            ("dynamodb:GetItem", outcome("GetItem", get.send().await)),
            ("dynamodb:PutItem", self.try_write(impossible_put()).await),
            (
                "dynamodb:UpdateItem",
                self.try_write(impossible_update()).await,
            ),
            (
                "dynamodb:DeleteItem",
                self.try_write(impossible_delete()).await,
            ),
        ];
        Check {
            exists: match described {
                Ok(()) => Some(true),
                Err(TableError::Missing(_)) => Some(false),
                Err(_) => None,
            },
            foreign,
            permissions: tries
                .map(|(action, tried)| Permission {
                    action,
                    access: access(tried),
                })
                .into(),
        }
    }

    async fn try_write(&self, request: Request) -> Result<(), TableError> {
        match self.send(request).await {
            Err(Failure::Condition(_)) => Ok(()),
            Err(Failure::Call(error)) => Err(error),
            Ok(_) => Err(TableError::Unknown(
                "a write went through whose condition cannot hold".to_owned(),
            )),
        }
    }
}

fn outcome<T, E>(
    operation: &str,
    answer: Result<T, SdkError<E, HttpResponse>>,
) -> Result<(), TableError>
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
{
    answer
        .map(|_| ())
        .map_err(|error| error::of_call(operation, &error))
}

fn access(tried: Result<(), TableError>) -> Access {
    match tried {
        Ok(()) | Err(TableError::Missing(_)) => Access::Granted,
        Err(TableError::Refused(why)) => Access::Refused(why),
        Err(other) => Access::Unclear(other.to_string()),
    }
}

fn impossible() -> Expression {
    Expression::new()
        .when_present(LEASE_KEY)
        .when_absent(LEASE_KEY)
}

fn impossible_put() -> Request {
    Request::Put(Item::from(item::key(NO_ROW)), impossible())
}

fn impossible_update() -> Request {
    let nothing = impossible().remove([item::SESSION]);
    Request::Update(NO_ROW.to_owned(), nothing)
}

fn impossible_delete() -> Request {
    Request::Delete(NO_ROW.to_owned(), impossible())
}
