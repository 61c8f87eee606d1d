//! Files changed at random: read or refused, never a panic.

use std::time::Duration;

use proptest::prelude::*;

use super::{Config, EXAMPLE};

/// One change to a file: cut `length` bytes somewhere and put `text` there.
type Change = (prop::sample::Index, usize, String);

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let tokens = prop_oneof![
        prop::sample::select(vec![
            "=",
            "[",
            "]",
            "[[stream]]\n",
            "{",
            "}",
            "\"",
            "'''",
            "\n",
            "#",
            ".",
            "-1",
            "1e99",
            "0x10",
            "nan",
            "2026-01-01",
            "\"5s\"",
            "\"\"",
            "true",
            "[]",
            "stream = ",
            "\u{feff}",
            "\r",
        ])
        .prop_map(str::to_owned),
        "\\PC{0,4}",
    ];
    prop::collection::vec((any::<prop::sample::Index>(), 0_usize..12, tokens), 0..6)
}

fn change(text: &str, changes: &[Change]) -> String {
    let mut letters: Vec<char> = text.chars().collect();
    for (at, length, insert) in changes {
        let at = at.index(letters.len() + 1);
        let end = (at + length).min(letters.len());
        letters.splice(at..end, insert.chars());
    }
    letters.into_iter().collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    /// Whatever is done to a file, it is read or refused with a reason of one line.
    #[test]
    fn a_mutated_file_is_read_or_refused(changes in changes(), sets in prop::collection::vec("(stream|lease|app)\\.(0\\.)?[a-z.]{0,9}=?\\PC{0,6}", 0..3)) {
        let text = change(EXAMPLE, &changes);
        match Config::parse(&text, "worker.toml", std::iter::empty(), &sets) {
            Ok(config) => {
                prop_assert!(!config.streams.is_empty());
                prop_assert!(config.delivery.batch.bytes <= config.delivery.buffer);
                prop_assert!(config.lease.failover >= Duration::from_secs(1));
            }
            Err(errors) => {
                prop_assert!(errors.iter().count() > 0);
                prop_assert_eq!(errors.to_string().lines().count(), errors.iter().count());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(32) })]

    /// Every duration and size within bounds is read as the number it spells, in every unit that can spell it.
    #[test]
    fn quantities_mean_what_they_say(seconds in 1_u64..=3_600, kibibytes in 10_240_u64..1_048_576) {
        let spellings = [format!("{seconds}s"), format!("{}ms", seconds * 1_000)];
        for spelling in spellings {
            let config = Config::parse(EXAMPLE, "x", std::iter::empty(), &[format!("lease.failover={spelling}")]);
            prop_assert_eq!(config.unwrap().lease.failover, Duration::from_secs(seconds));
        }
        let bytes = kibibytes * 1_024;
        for spelling in [format!("{kibibytes}KiB"), format!("{bytes}"), format!("{bytes}B")] {
            let config = Config::parse(EXAMPLE, "x", std::iter::empty(), &[format!("delivery.buffer={spelling}")]);
            let buffer = config.unwrap().delivery.buffer;
            prop_assert_eq!(buffer.get(), bytes);
            let again = [format!("delivery.buffer={buffer}")];
            let shown = Config::parse(EXAMPLE, "x", std::iter::empty(), &again).unwrap().delivery.buffer;
            prop_assert_eq!(shown, buffer);
        }
    }
}
