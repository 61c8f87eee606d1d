//! The recorded rows and requests (`data/README.md`).

use std::collections::BTreeSet;

use lease::{Lease, Renew};
use serde_json::Value;

/// The table of the KCL, as recorded.
pub(crate) const KCL: &str = "orders-app";
/// Ours beside it.
pub(crate) const OURS: &str = "ours";

/// The table at four moments.
pub(crate) fn moments() -> Vec<Value> {
    serde_json::from_str(include_str!("data/kcl-3.5.1-table.json")).expect("recorded JSON")
}

/// Its rows at one of them.
pub(crate) fn rows_of(moment: &Value) -> &Vec<Value> {
    moment["items"].as_array().expect("recorded rows")
}

/// The first recorded request of an operation that has this member, by JSON pointer.
pub(crate) fn recorded(operation: &str, has: &[&str], has_not: &[&str]) -> Value {
    let calls: Vec<Value> =
        serde_json::from_str(include_str!("data/kcl-3.5.1-calls.json")).expect("recorded JSON");
    calls
        .iter()
        .filter(|call| call["operation"] == operation)
        .map(|call| &call["examples"][0])
        .find(|request| {
            has.iter().all(|pointer| request.pointer(pointer).is_some())
                && has_not
                    .iter()
                    .all(|pointer| request.pointer(pointer).is_none())
        })
        .unwrap_or_else(|| panic!("no {operation} with {has:?} was recorded"))
        .clone()
}

/// The text at a JSON pointer.
pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    let found = value.pointer(pointer).and_then(Value::as_str);
    found.unwrap_or_else(|| panic!("no {pointer} in {value}"))
}

/// A renewal by the reader of a lease, with nothing to say.
pub(crate) fn renewal(lease: &Lease, me: &str) -> Renew {
    Renew {
        key: lease.key.clone(),
        me: me.into(),
        counter: lease.counter,
        handing_over: lease.handing_over(),
        checkpoint: None,
        children: BTreeSet::new(),
        throughput_kbps: None,
    }
}
