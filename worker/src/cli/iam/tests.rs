//! The policy by cases: what each key of the configuration adds, and whose policy it adds it to.

use serde_json::{Value, json};

use super::*;

const ROLE: &str = "arn:aws:iam::222222222222:role/stream-reader";
const OTHER_ROLE: &str = "arn:aws-cn:iam::333333333333:role/lease-table";

/// The smallest configuration and what a case adds to it.
fn config(extra: &str) -> Config {
    let head = if extra.contains("[[stream]]") {
        "[app]\nname = \"enricher\"\n"
    } else {
        "[app]\nname = \"enricher\"\n[[stream]]\nname = \"orders\"\n"
    };
    let text = format!("{head}{extra}");
    Config::parse(&text, "worker.toml", std::iter::empty(), &[]).unwrap_or_else(|e| panic!("{e}"))
}

fn here() -> Place {
    Place {
        account: Some("111111111111".to_owned()),
        region: Some(config::Region::new("eu-central-1").unwrap()),
    }
}

fn policy_of(config: &Config, principal: &Principal, place: &Place) -> Value {
    serde_json::to_value(policy::of(config, principal, place, &[])).unwrap()
}

/// The statement with this `Sid`: its actions and its resources.
fn statement(policy: &Value, sid: &str) -> Option<(Vec<String>, Vec<String>)> {
    let statements = policy["Statement"].as_array().unwrap();
    let statement = statements
        .iter()
        .find(|statement| statement["Sid"] == sid)?;
    let texts = |value: &Value| -> Vec<String> {
        let list = value.as_array().unwrap();
        list.iter()
            .map(|text| text.as_str().unwrap().to_owned())
            .collect()
    };
    Some((texts(&statement["Action"]), texts(&statement["Resource"])))
}

fn worker_statement(extra: &str, sid: &str) -> Option<(Vec<String>, Vec<String>)> {
    statement(&policy_of(&config(extra), &Principal::Worker, &here()), sid)
}

#[test]
fn the_smallest_configuration() {
    let expected = json!({
        "Version": "2012-10-17",
        "Statement": [
            {
                "Sid": "ReadStreams",
                "Effect": "Allow",
                "Action": [
                    "kinesis:DescribeStreamSummary", "kinesis:GetRecords", "kinesis:GetShardIterator", "kinesis:ListShards",
                ],
                "Resource": ["arn:aws:kinesis:eu-central-1:111111111111:stream/orders"],
            },
            {
                "Sid": "UseLeaseTable",
                "Effect": "Allow",
                "Action": [
                    "dynamodb:DescribeTable", "dynamodb:Scan", "dynamodb:GetItem",
                    "dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem",
                ],
                "Resource": ["arn:aws:dynamodb:eu-central-1:111111111111:table/enricher"],
            },
            {
                "Sid": "SetUpLeaseTable",
                "Effect": "Allow",
                "Action": ["dynamodb:CreateTable", "dynamodb:UpdateTable"],
                "Resource": ["arn:aws:dynamodb:eu-central-1:111111111111:table/enricher"],
            },
        ],
    });
    assert_eq!(
        policy_of(&config(""), &Principal::Worker, &here()),
        expected
    );
}

#[test]
fn setting_the_table_up_takes_what_is_configured() {
    let cases: [(&str, &[&str]); 6] = [
        ("create = true", &["CreateTable", "UpdateTable"]),
        ("create = false", &[]),
        (
            "tags = { team = \"data\" }",
            &["CreateTable", "UpdateTable", "TagResource"],
        ),
        // Tags are only given when the table is made.
        ("create = false\ntags = { team = \"data\" }", &[]),
        (
            "point_in_time_recovery = true",
            &["CreateTable", "UpdateTable", "UpdateContinuousBackups"],
        ),
        (
            "create = false\npoint_in_time_recovery = true",
            &["UpdateContinuousBackups"],
        ),
    ];
    for (keys, expected) in cases {
        let found = worker_statement(&format!("[lease]\n{keys}\n"), "SetUpLeaseTable");
        let found: Vec<String> = found.map(|(actions, _)| actions).unwrap_or_default();
        let expected: Vec<String> = expected
            .iter()
            .map(|action| format!("dynamodb:{action}"))
            .collect();
        assert_eq!(found, expected, "{keys}");
    }
}

#[test]
fn arns_name_account_region_and_partition() {
    let stream = |keys: &str| format!("[[stream]]\n{keys}\n");
    let cases = [
        // An ARN stays as it is, whatever the command line says.
        (
            stream("arn = \"arn:aws:kinesis:us-east-2:444444444444:stream/orders\""),
            here(),
            "arn:aws:kinesis:us-east-2:444444444444:stream/orders",
        ),
        (
            stream("name = \"orders\"\nregion = \"us-west-1\""),
            here(),
            "arn:aws:kinesis:us-west-1:111111111111:stream/orders",
        ),
        (
            stream("name = \"orders\"\nregion = \"cn-north-1\""),
            here(),
            "arn:aws-cn:kinesis:cn-north-1:111111111111:stream/orders",
        ),
        (
            stream("name = \"orders\"\nregion = \"us-gov-west-1\""),
            here(),
            "arn:aws-us-gov:kinesis:us-gov-west-1:111111111111:stream/orders",
        ),
        (
            stream("name = \"orders\""),
            Place::default(),
            "arn:aws:kinesis:REGION:ACCOUNT_ID:stream/orders",
        ),
    ];
    for (text, place, expected) in cases {
        let policy = policy_of(&config(&text), &Principal::Worker, &place);
        let (_, resources) = statement(&policy, "ReadStreams").unwrap();
        assert_eq!(resources, [expected], "{text}");
    }
}

#[test]
fn the_table_is_where_the_worker_looks_for_it() {
    let arn = "[[stream]]\narn = \"arn:aws:kinesis:us-east-2:444444444444:stream/orders\"\n";
    let cases = [
        // Its own region first, then the environment's, then the first stream's; never a stream's account.
        (
            format!("{arn}[lease]\ntable = \"leases\"\nregion = \"us-west-1\"\n"),
            here(),
            "arn:aws:dynamodb:us-west-1:111111111111:table/leases",
        ),
        (
            arn.to_owned(),
            here(),
            "arn:aws:dynamodb:eu-central-1:111111111111:table/enricher",
        ),
        (
            arn.to_owned(),
            Place::default(),
            "arn:aws:dynamodb:us-east-2:ACCOUNT_ID:table/enricher",
        ),
    ];
    for (text, place, expected) in cases {
        let policy = policy_of(&config(&text), &Principal::Worker, &place);
        let (_, resources) = statement(&policy, "UseLeaseTable").unwrap();
        assert_eq!(resources, [expected], "{text}");
    }
}

#[test]
fn what_a_role_does_is_in_the_policy_of_the_role() {
    let text = format!(
        "[[stream]]\nname = \"orders\"\n\
         [[stream]]\nname = \"returns\"\nrole_arn = \"{ROLE}\"\n\
         [[stream]]\nname = \"refunds\"\nrole_arn = \"{ROLE}\"\nregion = \"us-west-1\"\n\
         [lease]\nrole_arn = \"{OTHER_ROLE}\"\nregion = \"cn-north-1\"\n"
    );
    let config = config(&text);
    let sids = |policy: &Value| -> Vec<String> {
        let list = policy["Statement"].as_array().unwrap();
        list.iter()
            .map(|it| it["Sid"].as_str().unwrap().to_owned())
            .collect()
    };

    let own = policy_of(&config, &Principal::Worker, &here());
    assert_eq!(sids(&own), ["ReadStreams", "AssumeRoles"]);
    let (_, streams) = statement(&own, "ReadStreams").unwrap();
    assert_eq!(
        streams,
        ["arn:aws:kinesis:eu-central-1:111111111111:stream/orders"]
    );
    let (actions, roles) = statement(&own, "AssumeRoles").unwrap();
    assert_eq!(actions, ["sts:AssumeRole"]);
    assert_eq!(roles, [ROLE, OTHER_ROLE]);

    let reader = policy_of(&config, &Principal::Role(ROLE.to_owned()), &here());
    assert_eq!(sids(&reader), ["ReadStreams"]);
    let (_, streams) = statement(&reader, "ReadStreams").unwrap();
    assert_eq!(
        streams,
        [
            "arn:aws:kinesis:eu-central-1:222222222222:stream/returns",
            "arn:aws:kinesis:us-west-1:222222222222:stream/refunds",
        ]
    );

    let table = policy_of(&config, &Principal::Role(OTHER_ROLE.to_owned()), &here());
    assert_eq!(sids(&table), ["UseLeaseTable", "SetUpLeaseTable"]);
    let (_, tables) = statement(&table, "UseLeaseTable").unwrap();
    assert_eq!(
        tables,
        ["arn:aws-cn:dynamodb:cn-north-1:333333333333:table/enricher"]
    );
}

#[test]
fn keys_are_for_those_who_read_streams() {
    let key = arn::kms_key("arn:aws:kms:eu-central-1:111111111111:key/1").unwrap();
    let config = config(&format!(
        "[[stream]]\nname = \"orders\"\nrole_arn = \"{ROLE}\"\n"
    ));
    let decrypts = |principal: &Principal| {
        let policy = policy::of(&config, principal, &here(), std::slice::from_ref(&key));
        let policy = serde_json::to_value(policy).unwrap();
        statement(&policy, "DecryptStreams")
    };
    assert_eq!(decrypts(&Principal::Worker), None);
    let (actions, keys) = decrypts(&Principal::Role(ROLE.to_owned())).unwrap();
    assert_eq!(actions, ["kms:Decrypt"]);
    assert_eq!(keys, [key.as_str()]);
}

#[test]
fn a_role_that_is_not_configured_is_refused() {
    let with = config(&format!(
        "[[stream]]\nname = \"orders\"\nrole_arn = \"{ROLE}\"\n"
    ));
    assert_eq!(
        principal(&with, Some(ROLE.to_owned())).unwrap(),
        Principal::Role(ROLE.to_owned())
    );
    let refused = principal(&with, Some(OTHER_ROLE.to_owned())).unwrap_err();
    assert_eq!(refused.exit, Exit::Usage);
    assert!(refused.text.contains(ROLE), "{}", refused.text);
    let refused = principal(&config(""), Some(ROLE.to_owned())).unwrap_err();
    assert!(refused.text.contains("no role_arn"), "{}", refused.text);
}

#[test]
fn notes_name_what_is_left_to_do() {
    let notes = |config: &Config, place: &Place, keys: &[String]| {
        let policy = policy::of(config, &Principal::Worker, place, keys);
        policy::notes(config, &Principal::Worker, &policy, keys).join("\n")
    };
    let key = ["arn:aws:kms:eu-central-1:111111111111:key/1".to_owned()];
    assert_eq!(notes(&config(""), &here(), &key), "");
    assert!(notes(&config(""), &here(), &[]).contains("--kms-key"));
    let unknown = notes(&config(""), &Place::default(), &key);
    assert!(
        unknown.contains("--account") && unknown.contains("--region"),
        "{unknown}"
    );
    let role = config(&format!("[lease]\nrole_arn = \"{ROLE}\"\n"));
    assert!(notes(&role, &here(), &key).contains(ROLE));
    let many: String = (0..120)
        .map(|n| format!("[[stream]]\nname = \"orders-of-shop-{n}\"\n"))
        .collect();
    assert!(notes(&config(&many), &here(), &key).contains("6144"));
}

#[test]
fn the_environments_region_is_the_sdks() {
    let region = |set: &[(&str, &str)]| {
        region_of_environment(|name| {
            let (_, value) = set.iter().find(|(known, _)| *known == name)?;
            Some((*value).to_owned())
        })
        .map(|region| region.to_string())
    };
    assert_eq!(region(&[]), None);
    assert_eq!(
        region(&[("AWS_DEFAULT_REGION", "us-west-1")]),
        Some("us-west-1".to_owned())
    );
    let both = [
        ("AWS_DEFAULT_REGION", "us-west-1"),
        ("AWS_REGION", "us-west-2"),
    ];
    assert_eq!(region(&both), Some("us-west-2".to_owned()));
}

#[test]
fn what_is_no_account_or_key_is_refused() {
    assert!(arn::account("123456789012").is_ok());
    for wrong in ["", "12345678901", "1234567890123", "12345678901a"] {
        assert!(arn::account(wrong).is_err(), "{wrong}");
    }
    for wrong in [
        "1234",
        "alias/orders",
        "arn:aws:kms:eu-central-1:111111111111:alias/orders",
        "arn:aws:kms:eu-central-1:1111:key/1",
        "arn:aws:kms:eu-central-1:111111111111:key/",
        "arn:aws:s3:eu-central-1:111111111111:key/1",
    ] {
        assert!(arn::kms_key(wrong).is_err(), "{wrong}");
    }
}
