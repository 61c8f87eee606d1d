//! A CBOR writer for these tests alone: what the front reads must not come from the front's own writer.

pub(super) fn head(major: u8, n: usize) -> Vec<u8> {
    match n {
        0..=23 => vec![major << 5 | n as u8],
        24..=255 => vec![major << 5 | 24, n as u8],
        _ => [&[major << 5 | 25][..], &(n as u16).to_be_bytes()].concat(),
    }
}

pub(super) fn text(s: &str) -> Vec<u8> {
    [head(3, s.len()), s.into()].concat()
}

pub(super) fn blob(b: &[u8]) -> Vec<u8> {
    [head(2, b.len()), b.into()].concat()
}

pub(super) fn map(members: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let members = members
        .iter()
        .flat_map(|(name, value)| [text(name), value.clone()]);
    head(5, members.clone().count() / 2)
        .into_iter()
        .chain(members.flatten())
        .collect()
}

pub(super) fn indefinite_map(members: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let members = members
        .iter()
        .flat_map(|(name, value)| [text(name), value.clone()])
        .flatten();
    std::iter::once(0xBF).chain(members).chain([0xFF]).collect()
}

/// The value of a text member found by its encoded name; good for names that occur once.
pub(super) fn text_member(body: &[u8], name: &str) -> String {
    let name = text(name);
    let at = body
        .windows(name.len())
        .position(|w| w == name)
        .expect("member")
        + name.len();
    let (start, length) = match body[at] {
        0x78 => (at + 2, usize::from(body[at + 1])),
        0x79 => (
            at + 3,
            usize::from(u16::from_be_bytes([body[at + 1], body[at + 2]])),
        ),
        short => (at + 1, usize::from(short & 0x1F)),
    };
    String::from_utf8(body[start..start + length].to_vec()).expect("text")
}

pub(super) fn contains(body: &[u8], part: &[u8]) -> bool {
    body.windows(part.len()).any(|w| w == part)
}
