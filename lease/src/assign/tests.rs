use std::collections::BTreeSet;

use checkpoint::Position;

use super::*;

const FAILOVER_OVER: Duration = Duration::from_secs(4);

/// `"k:a"`: row `k` of worker `a`. `k:` has no owner, `k:a<b` is handed over from `b` to `a`. Marks after a space:
/// `dead` nobody reads it, `held`, `busy`, `wait` its parents are not done, `end` it is finished, `ready` the heir is
/// awake, `to=x` a write is under way that gives it to `x`.
struct Text(Lease, BTreeSet<String>, Option<WorkerId>);

fn text(line: &str) -> Text {
    let mut words = line.split(' ');
    let (key, owners) = words
        .next()
        .and_then(|word| word.split_once(':'))
        .expect("key:owner");
    let marks: BTreeSet<String> = words.map(str::to_owned).collect();
    let (owner, reader) = owners.split_once('<').unwrap_or((owners, ""));
    let mut lease = Lease::new(None, key.into(), Position::TrimHorizon);
    lease.owner = (!owner.is_empty()).then(|| owner.into());
    lease.checkpoint_owner = (!reader.is_empty()).then(|| reader.into());
    lease.heir_ready = marks.contains("ready");
    if marks.contains("end") {
        lease.checkpoint = Position::ShardEnd;
    }
    let to = marks
        .iter()
        .find_map(|mark| mark.strip_prefix("to="))
        .map(WorkerId::from);
    Text(lease, marks, to)
}

fn with<T>(
    role: Role,
    workers: &str,
    max_leases: usize,
    lines: &[&str],
    use_scene: impl FnOnce(&Scene<'_>) -> T,
) -> T {
    let texts: Vec<Text> = lines.iter().map(|line| text(line)).collect();
    let rows = texts
        .iter()
        .map(|Text(lease, marks, to)| Row {
            lease,
            unread: (lease.reader().is_none() || marks.contains("dead")).then_some(FAILOVER_OVER),
            going_to: to.as_ref(),
            startable: !marks.contains("wait"),
            held: marks.contains("held"),
            busy: marks.contains("busy"),
        })
        .collect();
    let workers = workers
        .split(' ')
        .map(|name| {
            (
                WorkerId::from(name.trim_end_matches('!')),
                Worker {
                    quick: name.ends_with('!'),
                },
            )
        })
        .collect();
    use_scene(&Scene {
        me: &"me".into(),
        role,
        rows,
        workers,
        max_leases,
        entitled: &[(LeaseKey::from("child"), Time::NEVER)].into(),
        deputy_patience: Duration::from_secs(3),
    })
}

fn spell(step: &Move) -> String {
    match step {
        Move::Acquire(key) => format!("acquire {key}"),
        Move::Ready(key) => format!("ready {key}"),
        Move::Take(key) => format!("take {key}"),
        Move::Assign(key, to) => format!("assign {key} {to}"),
        Move::HandOff { key, from, to } => format!("hand {key} {from} {to}"),
    }
}

fn moves(role: Role, workers: &str, max_leases: usize, lines: &[&str]) -> Vec<String> {
    with(role, workers, max_leases, lines, |scene| {
        plan(scene).iter().map(spell).collect()
    })
}

/// Each case: why, the rows, and the moves; rows and moves with commas between them.
fn cases(role: Role, workers: &str, max_leases: usize, cases: &[(&str, &str, &str)]) {
    for (why, rows, want) in cases {
        let rows: Vec<&str> = rows.split(", ").collect();
        let moves = moves(role, workers, max_leases, &rows);
        assert_eq!(moves.join(", "), *want, "{why}");
    }
}

#[test]
fn what_is_mine_i_acquire_and_nothing_else() {
    let mine = [
        ("mine by name", "k:me", "acquire k"),
        ("held already", "k:me held", ""),
        ("still winding down", "k:me busy", ""),
        ("finished rows are nobody's", "k:me end", ""),
        ("a follower leaves free rows alone", "k:", ""),
        ("except a finished parent's child", "child:", "take child"),
    ];
    cases(Role::Follower, "me", 9, &mine);
}

#[test]
fn an_heir_says_that_it_is_awake() {
    let heir = [
        ("mine after a hand-over: say so", "k:me<a", "ready k"),
        ("said already", "k:me<a ready", ""),
        (
            "I hand over, but do not hold: back to me",
            "k:a<me",
            "take k",
        ),
    ];
    cases(Role::Follower, "a me", 9, &heir);
}

#[test]
fn the_leader_takes_what_nobody_reads() {
    let rescue = [
        ("at once", "k:, l:x dead", "take k, take l"),
        ("parents first", "k: wait", ""),
        ("under way already", "k: to=me", ""),
        (
            "H9: who is dead gets nothing",
            "k:x dead, h:me held, l:me held",
            "take k",
        ),
    ];
    cases(Role::Leader, "me", 9, &rescue);
    let after_patience = [("so does the deputy", "k:", "take k")];
    cases(Role::Deputy, "me", 9, &after_patience);
}

#[test]
fn nobody_gets_more_than_it_may_hold() {
    let alone = [("no more than allowed", "k:, l:", "take k")];
    cases(Role::Leader, "me", 1, &alone);
    let full = [
        ("a full leader gives", "h:me held, k:", "assign k a"),
        (
            "a row of a full leader goes on",
            "h:me held, k:me dead",
            "assign k a",
        ),
    ];
    cases(Role::Leader, "a me", 1, &full);
}

#[test]
fn a_quick_joiner_is_given_what_is_free() {
    let free = [("b is quick", "h:me held, k:", "assign k b")];
    cases(Role::Leader, "b! me", 9, &free);
}

#[test]
fn only_the_leader_evens_out_and_only_what_differs_by_two() {
    let two = [
        ("one more is no difference", "h:me held, k:me held, l:a", ""),
        ("two more are", "h:me held, k:me held", "hand k me a"),
        ("what is under way counts", "h:me held, k:me held to=a", ""),
        (
            "what is being handed over counts for the heir",
            "h:me held, k:a<me held busy",
            "",
        ),
        (
            "H33: finished and waiting rows count for nobody",
            "h:me held, k:me end, l:me wait busy",
            "",
        ),
    ];
    cases(Role::Leader, "a me", 9, &two);
    let tie = [(
        "H10: to the smallest id",
        "h:me held, k:me held",
        "hand k me a",
    )];
    cases(Role::Leader, "a b me", 9, &tie);
    let follower = [("a follower does not", "h:me held, k:me held", "")];
    cases(Role::Follower, "a me", 9, &follower);
}

#[test]
fn balance_ends_with_shares_that_differ_by_one_at_most_and_moves_no_more_than_needed() {
    for rows in 0..24 {
        for workers in 1..6 {
            let names: Vec<String> = (1..workers)
                .map(|n| format!("w{n}"))
                .chain(["me".into()])
                .collect();
            let lines: Vec<String> = (0..rows)
                .map(|n| format!("k{n:02}:{} held", names[n * n % 7 % workers]))
                .collect();
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            let mut owners: BTreeMap<String, usize> =
                names.iter().map(|name| (name.clone(), 0)).collect();
            for n in 0..rows {
                *owners.get_mut(&names[n * n % 7 % workers]).expect("named") += 1;
            }
            let least = rows / workers;
            let surplus: usize = owners
                .values()
                .map(|count| count.saturating_sub(least + 1))
                .sum();
            let short: usize = owners
                .values()
                .map(|count| least.saturating_sub(*count))
                .sum();
            let steps = moves(Role::Leader, &names.join(" "), usize::MAX, &lines);
            assert_eq!(
                steps.len(),
                surplus.max(short),
                "{rows} rows, {workers} workers"
            );
            for step in &steps {
                let words: Vec<&str> = step.split(' ').collect();
                *owners.get_mut(words[2]).expect("named") -= 1;
                *owners.get_mut(words[3]).expect("named") += 1;
            }
            let (most, fewest) = (owners.values().max(), owners.values().min());
            assert!(
                most.expect("some") - fewest.expect("some") <= 1,
                "{owners:?}"
            );
        }
    }
}

#[test]
fn heirs_are_those_with_the_fewest_leases() {
    let lines = ["h:me held", "i:me held", "j:me held", "k:a"];
    let keys = ["h", "i", "j"].map(LeaseKey::from);
    let spelt = |scene: &Scene<'_>| -> Vec<String> {
        heirs(scene, keys.clone())
            .iter()
            .map(|(key, to)| format!("{key} {to}"))
            .collect()
    };
    assert_eq!(
        with(Role::Follower, "a b me", 9, &lines, spelt),
        ["h b", "i a", "j b"]
    );
    assert_eq!(with(Role::Follower, "a b me", 1, &lines, spelt), ["h b"]);
    assert!(with(Role::Follower, "me", 9, &lines, spelt).is_empty());
}
