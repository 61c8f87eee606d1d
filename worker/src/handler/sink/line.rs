//! Rule: one user record as one line of JSON.
//!
//! `data` is a string (`text`), a string of base64 (`base64`) or a JSON value (`json`). Data that is not what the
//! configuration says – not UTF-8, not JSON – is written as `data_base64` instead: a record is never refused or
//! changed for its content, and the key tells which it is.

use checkpoint::UserRecord;

use crate::config::Payload;

/// Appends the line, with its line break.
pub(super) fn write_line(
    out: &mut Vec<u8>,
    stream: &str,
    shard: &str,
    record: &UserRecord,
    payload: Payload,
) {
    out.extend_from_slice(b"{\"stream\":");
    string(out, stream);
    out.extend_from_slice(b",\"shard\":");
    string(out, shard);
    out.extend_from_slice(b",\"sequence\":\"");
    out.extend_from_slice(record.sequence.as_str().as_bytes());
    out.extend_from_slice(b"\",\"sub_sequence\":");
    out.extend_from_slice(record.sub_sequence.to_string().as_bytes());
    out.extend_from_slice(b",\"partition_key\":");
    string(out, record.partition_key.as_str());
    if let Some(key) = &record.explicit_hash_key {
        out.extend_from_slice(b",\"explicit_hash_key\":");
        string(out, key.as_str());
    }
    if let Some(arrival) = record.arrival {
        out.extend_from_slice(b",\"arrival_ms\":");
        out.extend_from_slice(arrival.0.to_string().as_bytes());
    }
    data(out, &record.data, payload);
    out.extend_from_slice(b"}\n");
}

fn data(out: &mut Vec<u8>, data: &[u8], payload: Payload) {
    match (payload, std::str::from_utf8(data)) {
        (Payload::Text, Ok(text)) => {
            out.extend_from_slice(b",\"data\":");
            string(out, text);
            return;
        }
        (Payload::Json, Ok(text))
            if serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok() =>
        {
            out.extend_from_slice(b",\"data\":");
            one_line(out, text.trim());
            return;
        }
        (Payload::Base64, _) => out.extend_from_slice(b",\"data\":\""),
        _ => out.extend_from_slice(b",\"data_base64\":\""),
    }
    base64_simd::STANDARD.encode_append(data, out);
    out.push(b'"');
}

/// A JSON value as it is, digit for digit, without its line breaks: those stand only between tokens.
fn one_line(out: &mut Vec<u8>, json: &str) {
    out.extend(json.bytes().filter(|byte| !matches!(byte, b'\n' | b'\r')));
}

fn string(out: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(out, text).expect("a string can be written as JSON to memory");
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use checkpoint::{ByteStr, Millis};

    use super::*;

    fn record(data: &'static [u8]) -> UserRecord {
        UserRecord {
            data: Bytes::from_static(data),
            partition_key: ByteStr::from_static("k\"1"),
            explicit_hash_key: Some(ByteStr::from_static("7")),
            sequence: "0042".parse().expect("digits"),
            sub_sequence: 3,
            aggregated: true,
            arrival: Some(Millis(1_700_000_000_123)),
            encryption: None,
        }
    }

    fn line(data: &'static [u8], payload: Payload) -> String {
        let mut out = Vec::new();
        write_line(
            &mut out,
            "orders",
            "shardId-000000000001",
            &record(data),
            payload,
        );
        String::from_utf8(out).expect("JSON is UTF-8")
    }

    #[test]
    fn a_line_says_all_there_is_to_say() {
        let head = r#"{"stream":"orders","shard":"shardId-000000000001","sequence":"0042","sub_sequence":3,"partition_key":"k\"1","explicit_hash_key":"7","arrival_ms":1700000000123,"#;
        for (data, payload, tail) in [
            (&b"a\n\"b"[..], Payload::Text, r#""data":"a\n\"b"}"#),
            (b"\xff\x00", Payload::Text, r#""data_base64":"/wA="}"#),
            (b"\xff\x00", Payload::Base64, r#""data":"/wA="}"#),
            (b"", Payload::Base64, r#""data":""}"#),
            (
                b" {\"n\":\n 1.50}\r\n",
                Payload::Json,
                r#""data":{"n": 1.50}}"#,
            ),
            (b"{\"n\":", Payload::Json, r#""data_base64":"eyJuIjo="}"#),
        ] {
            assert_eq!(line(data, payload), format!("{head}{tail}\n"));
        }
    }
}
