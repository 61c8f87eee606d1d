//! What a worker may do with its table, tried without an effect.

use lease::{
    DynamoTable,
    dynamodb::{Access, Check},
};
use serde_json::json;

use crate::{
    canned::{Answer, Canned},
    fixture::Dynamo,
};

fn accesses(check: &Check) -> Vec<(&'static str, &'static str)> {
    let kind = |access: &Access| match access {
        Access::Granted => "granted",
        Access::Refused(_) => "refused",
        Access::Unclear(_) => "unclear",
    };
    let permissions = check.permissions.iter();
    permissions
        .map(|one| (one.action, kind(&one.access)))
        .collect()
}

#[tokio::test]
async fn a_check_changes_nothing() {
    let dynamo = Dynamo::start().await;
    let table = dynamo.table("orders").await;
    dynamo.put(
        "orders",
        &json!({"leaseKey": {"S": "s"}, "leaseCounter": {"N": "1"}, "checkpoint": {"S": "5"}}),
    );
    let before = dynamo.rows("orders");
    let check = table.check().await;
    assert_eq!(check.exists, Some(true));
    assert!(check.all_granted(), "{check:?}");
    assert_eq!(dynamo.rows("orders"), before);

    let check = DynamoTable::new(&dynamo.client, "absent").check().await;
    assert_eq!(check.exists, Some(false));
    assert!(check.all_granted(), "{check:?}");
}

#[tokio::test]
async fn a_check_tells_every_permission_apart() {
    let denied = || Answer::error(400, "AccessDeniedException");
    let (canned, client) = Canned::client([
        denied(),
        Answer::ok(json!({"Items": []})),
        Answer::error(400, "ResourceNotFoundException"),
        Answer::error(400, "ConditionalCheckFailedException"),
        denied(),
        Answer::TimedOut,
    ]);
    let check = DynamoTable::new(&client, "t").check().await;
    assert_eq!(check.exists, None);
    assert!(!check.all_granted());
    assert_eq!(
        accesses(&check),
        [
            ("dynamodb:DescribeTable", "refused"),
            ("dynamodb:Scan", "granted"),
            ("dynamodb:GetItem", "granted"),
            ("dynamodb:PutItem", "granted"),
            ("dynamodb:UpdateItem", "refused"),
            ("dynamodb:DeleteItem", "unclear"),
        ]
    );
    for (operation, request) in canned.requests().into_iter().skip(3) {
        assert_eq!(
            request["ConditionExpression"],
            "attribute_exists(#leaseKey) AND attribute_not_exists(#leaseKey)",
            "{operation}"
        );
    }
}
