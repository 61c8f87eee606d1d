//! Bounded runs of the fuzz targets of `tests/fuzz`: the same properties, for bytes that proptest draws.

use proptest::prelude::*;
use shardkeeper_tests::fuzz;

fn instructions() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..400)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(4096) })]

    #[test]
    fn the_decoder_gives_out_what_is_there_whatever_the_bytes(data in instructions()) {
        fuzz::aggregate(&data);
    }

    #[test]
    fn a_row_is_read_or_refused_by_its_key_whatever_its_attributes(data in instructions()) {
        fuzz::lease_row(&data);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    #[test]
    fn a_file_is_read_or_refused_whatever_is_in_it(data in instructions(), text in "\\PC{0,60}") {
        fuzz::config(&data);
        fuzz::config(text.as_bytes());
    }
}

/// The instructions reach what they are meant to reach.
#[test]
fn the_instructions_lead_to_rows_and_aggregates_of_every_kind() {
    let drawn = (0_u32..2_000).map(|seed| {
        let mut rng = fastrand::Rng::with_seed(u64::from(seed));
        std::iter::repeat_with(|| rng.u8(..))
            .take(300)
            .collect::<Vec<u8>>()
    });
    let (mut leases, mut others, mut unreadable, mut aggregates) = (0, 0, 0, 0);
    for data in drawn {
        match lease::dynamodb::read_item(&fuzz::item(&data)) {
            Ok(Some(_)) => leases += 1,
            Ok(None) => others += 1,
            Err(_) => unreadable += 1,
        }
        let record =
            checkpoint::KinesisRecord::new("1".parse().expect("digits"), "a", fuzz::payload(&data));
        aggregates += usize::from(
            checkpoint::deaggregate([record])
                .iter()
                .any(|one| one.aggregated),
        );
    }
    for (what, count) in [
        ("leases", leases),
        ("others", others),
        ("unreadable", unreadable),
        ("aggregates", aggregates),
    ] {
        assert!(count >= 50, "{count} {what}");
    }
}

/// Inputs that libFuzzer found.
#[test]
fn what_failed_once_fails_no_more() {
    // A throughput that is not a number.
    fuzz::lease_row(&[0xFE, 0x09, 0x35, 0xA4, 0x09, 0x35, 0xA4, 0xA4]);
}
