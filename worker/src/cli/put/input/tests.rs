use super::*;

fn read(text: &[u8], jsonl: bool) -> Vec<Result<Item, BadInput>> {
    let mut lines = Lines {
        reader: BufReader::new(Box::new(std::io::Cursor::new(text.to_vec()))),
        key: "sequence".parse().expect("a rule"),
        jsonl,
        random: Random::seeded(1),
        line: 0,
        records: 0,
    };
    std::iter::from_fn(|| lines.next()).collect()
}

fn item(tag: u64, key: &str, data: &'static [u8]) -> Result<Item, BadInput> {
    Ok(Item {
        record: PutRecord {
            partition_key: key.to_owned(),
            explicit_hash_key: None,
            data: Bytes::from_static(data),
        },
        tag,
    })
}

#[test]
fn a_line_is_a_record_whatever_its_bytes() {
    let items = read(b"one\n\ntwo\r\n\xff\x00\nlast", false);
    let expected = [
        item(1, "1", b"one"),
        item(3, "2", b"two\r"),
        item(4, "3", b"\xff\x00"),
        item(5, "4", b"last"),
    ];
    assert_eq!(items, expected);
    assert_eq!(read(b"", false), []);
}

#[test]
fn json_lines_say_data_and_keys() {
    let text = br#"{"data":"a\nb"}
{"data":{"z": 1, "a": 1.50}}
{"data_base64":"/wA=","partition_key":"k"}
{"stream":"s","shard":"shardId-0","sequence":"1","sub_sequence":0,"partition_key":"p","arrival_ms":1,"data":"x"}
"#;
    let expected = [
        item(1, "1", b"a\nb"),
        item(2, "2", br#"{"z": 1, "a": 1.50}"#),
        item(3, "k", b"\xff\x00"),
        item(4, "p", b"x"),
    ];
    assert_eq!(read(text, true), expected);
    let hashed = read(
        br#"{"data":"x","explicit_hash_key":"340282366920938463463374607431768211455"}"#,
        true,
    );
    let record = &hashed[0].as_ref().expect("a record").record;
    assert_eq!(record.explicit_hash_key, Some(HashKey::MAX));
}

#[test]
fn a_bad_line_is_named() {
    for (line, words) in [
        ("{}", "no data"),
        (r#"{"data":"x","data_base64":"eA=="}"#, "both"),
        (r#"{"data_base64":"x"}"#, "no base64"),
        (r#"{"data":"x","partiton_key":"k"}"#, "partiton_key"),
        (
            r#"{"data":"x","explicit_hash_key":"-1"}"#,
            "explicit_hash_key",
        ),
        (r#"{"data":"x","partition_key":7}"#, "column 29"),
        ("not json", "column 2"),
        (r#"["data"]"#, "is not as it should be"),
    ] {
        let text = format!("{{\"data\":\"good\"}}\n\n{line}\n");
        let last = read(text.as_bytes(), true).pop().expect("a line");
        let bad = last.expect_err(line).to_string();
        assert!(
            bad.starts_with("line 3 ") && bad.contains(words),
            "{line}: {bad}"
        );
    }
}

#[test]
fn a_line_without_end_is_refused_before_it_fills_the_memory() {
    let long = vec![b'x'; LONGEST_LINE + 2];
    let bad = read(&long, false).swap_remove(0).expect_err("too long");
    assert!(bad.to_string().contains("longer than"), "{bad}");
}

#[test]
fn generated_records_have_the_size_and_follow_the_seed() {
    let make = |number, size| generated(number, size, &mut Random::seeded(3));
    assert_eq!(make(17, 100).len(), 100);
    assert!(make(17, 100).starts_with(b"17 "));
    assert_eq!(make(17, 100), make(17, 100));
    assert_eq!(make(12_345, 2), "12345");
}
