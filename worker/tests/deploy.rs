//! What is deployed fits the program: configurations are read, deadlines fit, metrics exist, every alert has a runbook.
//! What other programs have to say about these files (Kubernetes, ECS, IAM, Prometheus) is in `.ci/deploy`.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;
use shardkeeper::config::Config;
use shardkeeper::metrics::{self, Kind};

const ALERTS: &str = include_str!("../../deploy/prometheus/alerts.yaml");
const ALERTS_TEST: &str = include_str!("../../deploy/prometheus/alerts_test.yaml");
const DASHBOARD: &str = include_str!("../../deploy/grafana/dashboard.json");
const OPERATIONS: &str = include_str!("../../docs/OPERATIONS.md");
const TASK: &str = include_str!("../../deploy/ecs/task-definition.json");
const CONTAINER: &str = include_str!("../../deploy/container.toml");
const DEPLOYMENT: &str = include_str!("../../deploy/kubernetes/base/deployment.yaml");
const CONFIG_MAP: &str = include_str!("../../deploy/kubernetes/base/worker.toml");
const DOCKERFILE: &str = include_str!("../../deploy/Dockerfile");

/// Every metric name in a text, as Prometheus sees it: histograms by their series.
fn metrics_in(text: &str) -> BTreeSet<&str> {
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    text.split(|c| !is_name(c))
        .filter(|word| word.starts_with("shardkeeper_"))
        .collect()
}

/// The metric a series belongs to, if there is one.
fn metric_of(series: &str) -> Option<&'static str> {
    metrics::ALL
        .iter()
        .find(|metric| match metric.kind {
            Kind::Histogram => ["_bucket", "_sum", "_count"]
                .into_iter()
                .any(|end| series.strip_suffix(end) == Some(metric.name)),
            _ => series == metric.name,
        })
        .map(|metric| metric.name)
}

#[test]
fn alerts_dashboard_and_runbooks_name_metrics_that_exist() {
    for (file, text) in [
        ("alerts.yaml", ALERTS),
        ("alerts_test.yaml", ALERTS_TEST),
        ("dashboard.json", DASHBOARD),
    ] {
        let names = metrics_in(text);
        assert!(names.len() > 10, "{file}: found only {names:?}");
        for name in names {
            assert!(metric_of(name).is_some(), "{file}: there is no {name}");
        }
    }
    // Prose speaks of metrics, not of their series.
    for name in metrics_in(OPERATIONS) {
        assert!(
            metrics::ALL.iter().any(|metric| metric.name == name),
            "OPERATIONS.md: there is no {name}"
        );
    }
}

#[test]
fn the_dashboard_shows_every_metric() {
    let shown: BTreeSet<&str> = metrics_in(DASHBOARD)
        .into_iter()
        .filter_map(metric_of)
        .collect();
    for metric in metrics::ALL {
        assert!(
            shown.contains(metric.name),
            "{} is nowhere in dashboard.json",
            metric.name
        );
    }
}

#[test]
fn labels_of_alerts_and_dashboard_exist() {
    // What Prometheus adds, and `le` of histograms.
    let mut known: BTreeSet<&str> = ["namespace", "job", "instance", "le"].into();
    known.extend(metrics::ALL.iter().flat_map(|metric| metric.labels));
    let panels: Value = serde_json::from_str(DASHBOARD).unwrap();
    let mut texts = vec![ALERTS.to_owned()];
    for panel in panels["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            texts.push(target["expr"].as_str().unwrap().to_owned());
        }
    }
    let mut seen = 0;
    for text in &texts {
        for list in text.split(" by (").skip(1) {
            let (labels, _) = list.split_once(')').unwrap();
            for label in labels.split(',').map(str::trim) {
                seen += 1;
                assert!(known.contains(label), "no metric has label {label}: {text}");
            }
        }
    }
    assert!(seen > 50, "found only {seen} labels");
}

/// The anchor GitHub gives a heading.
fn anchor(heading: &str) -> String {
    let kept = heading
        .trim()
        .chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

fn values<'a>(text: &'a str, key: &'a str) -> impl Iterator<Item = &'a str> {
    text.lines()
        .filter_map(move |line| line.trim().trim_start_matches("- ").strip_prefix(key))
        .map(|value| value.trim().trim_matches('"'))
}

#[test]
fn every_alert_has_a_runbook_and_a_test() {
    let anchors: BTreeSet<String> = OPERATIONS
        .lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| anchor(line.trim_start_matches('#')))
        .collect();
    let alerts: Vec<&str> = values(ALERTS, "alert:").collect();
    let runbooks: Vec<&str> = values(ALERTS, "runbook:").collect();
    assert!(alerts.len() > 15, "found only {alerts:?}");
    assert_eq!(alerts.len(), runbooks.len());
    for (alert, runbook) in alerts.iter().zip(runbooks) {
        let expected = format!("docs/OPERATIONS.md#{}", anchor(&format!("Alert {alert}")));
        assert_eq!(runbook, expected);
        let (_, place) = runbook.split_once('#').unwrap();
        assert!(
            anchors.contains(place),
            "docs/OPERATIONS.md has no heading \"Alert {alert}\""
        );
        assert!(
            ALERTS_TEST.contains(&format!("alertname=\"{alert}\"")),
            "{alert} fires in no test"
        );
    }
    // And no runbook for an alert that is gone.
    for heading in OPERATIONS
        .lines()
        .filter_map(|line| line.strip_prefix("### Alert "))
    {
        assert!(alerts.contains(&heading), "there is no alert {heading}");
    }
}

fn parsed(text: &str, file: &str, env: Vec<(String, String)>) -> Config {
    Config::parse(text, file, env.into_iter(), &[]).unwrap_or_else(|errors| panic!("{errors}"))
}

#[test]
fn kubernetes_gives_time_to_drain_and_asks_where_the_worker_answers() {
    let config = parsed(CONFIG_MAP, "worker.toml", vec![]);
    let grace: u64 = values(DEPLOYMENT, "terminationGracePeriodSeconds:")
        .next()
        .unwrap()
        .parse()
        .unwrap();
    assert!(Duration::from_secs(grace) > config.shutdown.deadline + Duration::from_secs(5));
    let listen = config.admin.listen.unwrap();
    assert!(listen.ip().is_unspecified(), "{listen}");
    let port: u16 = values(DEPLOYMENT, "containerPort:")
        .next()
        .unwrap()
        .parse()
        .unwrap();
    assert_eq!(port, listen.port());
    let probes: Vec<&str> = values(DEPLOYMENT, "path:").collect();
    assert_eq!(probes, ["/readyz", "/livez", "/readyz"]);
}

#[test]
fn ecs_gives_time_to_drain_and_completes_the_images_configuration() {
    let task: Value = serde_json::from_str(TASK).unwrap();
    let container = &task["containerDefinitions"][0];
    let env: Vec<(String, String)> = container["environment"]
        .as_array()
        .unwrap()
        .iter()
        .map(|variable| {
            let text = |key: &str| variable[key].as_str().unwrap().to_owned();
            (text("name"), text("value"))
        })
        .collect();
    let config = parsed(CONTAINER, "container.toml", env);
    let stop = container["stopTimeout"].as_u64().unwrap();
    assert!(
        stop <= 120,
        "Fargate waits two minutes at most, not {stop} s"
    );
    assert!(Duration::from_secs(stop) > config.shutdown.deadline + Duration::from_secs(5));
    let port = container["portMappings"][0]["containerPort"]
        .as_u64()
        .unwrap();
    assert_eq!(port, u64::from(config.admin.listen.unwrap().port()));
    assert_eq!(container["readonlyRootFilesystem"], true);
    // Without name and stream the image's configuration is refused, not guessed.
    let bare = Config::parse(CONTAINER, "container.toml", std::iter::empty(), &[]);
    let errors = bare.unwrap_err().to_string();
    assert!(
        errors.contains("app.name") && errors.contains("stream"),
        "{errors}"
    );
}

#[test]
fn everybody_agrees_where_program_and_configuration_are() {
    let program = "/usr/local/bin/shardkeeper";
    let file = "/etc/shardkeeper/worker.toml";
    assert!(DOCKERFILE.contains(&format!("ENTRYPOINT [\"{program}\"]")));
    assert!(DOCKERFILE.contains(&format!("CMD [\"run\", \"--config\", \"{file}\"]")));
    assert!(DEPLOYMENT.contains(&format!("args: [\"run\", \"--config\", \"{file}\"]")));
    assert!(DEPLOYMENT.contains("mountPath: /etc/shardkeeper\n"));
    let task: Value = serde_json::from_str(TASK).unwrap();
    assert_eq!(
        task["containerDefinitions"][0]["healthCheck"]["command"],
        serde_json::json!(["CMD", program, "probe", "--config", file])
    );
}

#[test]
fn the_policy_beside_the_example_is_the_programs() {
    let answer = std::process::Command::new(env!("CARGO_BIN_EXE_shardkeeper"))
        .args([
            "iam",
            "--account",
            "123456789012",
            "--region",
            "eu-central-1",
        ])
        .args([
            "--config",
            concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/worker.toml"),
        ])
        .output()
        .unwrap();
    assert!(answer.status.success(), "{answer:?}");
    let printed = String::from_utf8(answer.stdout).unwrap();
    assert_eq!(printed, include_str!("../../deploy/iam/policy.json"));
}
