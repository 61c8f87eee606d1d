//! The CBOR of `application/x-amz-cbor-1.1`: RFC 8949 with one twist, timestamps (tag 1) count milliseconds.

use std::borrow::Cow;

use bytes::Bytes;

use super::value::Value;

/// Deeper nesting than any request has.
const MAX_DEPTH: u32 = 32;

/// Why a body is no CBOR that this protocol uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CborError {
    #[error("the CBOR ends in the middle of a value")]
    Truncated,
    #[error("bytes follow the CBOR value")]
    Trailing,
    #[error("text in the CBOR is not UTF-8")]
    NotUtf8,
    #[error("a map key in the CBOR is not text")]
    KeyNotText,
    #[error("the CBOR holds an integer beyond 64 bits")]
    OutOfRange,
    #[error("the CBOR holds an item of a kind this protocol does not use (initial byte {0:#04x})")]
    Unsupported(u8),
    #[error("the CBOR nests too deeply")]
    TooDeep,
}

/// Appends the head of an item: its major type (0 to 7) and its number.
pub(crate) fn write_head(out: &mut Vec<u8>, major: u8, n: u64) {
    let major = major << 5;
    let bytes = n.to_be_bytes();
    match n {
        0..=23 => out.push(major | bytes[7]),
        24..=0xFF => out.extend_from_slice(&[major | 24, bytes[7]]),
        0x100..=0xFFFF => {
            out.push(major | 25);
            out.extend_from_slice(&bytes[6..]);
        }
        0x1_0000..=0xFFFF_FFFF => {
            out.push(major | 26);
            out.extend_from_slice(&bytes[4..]);
        }
        _ => {
            out.push(major | 27);
            out.extend_from_slice(&bytes);
        }
    }
}

/// Appends a value.
pub(crate) fn write(value: &Value<'_>, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.push(0xF6),
        Value::Bool(b) => out.push(if *b { 0xF5 } else { 0xF4 }),
        Value::Int(n) => write_int(out, *n),
        Value::Float(n) => {
            out.push(0xFB);
            out.extend_from_slice(&n.to_be_bytes());
        }
        Value::Text(text) => write_text(out, text),
        Value::Bytes(bytes) => {
            write_head(out, 2, bytes.len() as u64);
            out.extend_from_slice(bytes);
        }
        Value::Timestamp(millis) => {
            out.push(0xC1);
            write_int(out, *millis);
        }
        Value::List(items) => {
            write_head(out, 4, items.len() as u64);
            items.iter().for_each(|item| write(item, out));
        }
        Value::Map(members) => {
            write_head(out, 5, members.len() as u64);
            for (name, value) in members {
                write_text(out, name);
                write(value, out);
            }
        }
    }
}

/// Appends text.
pub(crate) fn write_text(out: &mut Vec<u8>, text: &str) {
    write_head(out, 3, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

fn write_int(out: &mut Vec<u8>, n: i64) {
    match u64::try_from(n) {
        Ok(n) => write_head(out, 0, n),
        Err(_) => write_head(out, 1, n.unsigned_abs() - 1),
    }
}

/// Reads one value that fills the body; byte strings share its memory.
pub(crate) fn read(body: &Bytes) -> Result<Value<'_>, CborError> {
    let mut reader = Reader { body, at: 0 };
    let value = reader.value(MAX_DEPTH)?;
    if reader.at == body.len() {
        Ok(value)
    } else {
        Err(CborError::Trailing)
    }
}

struct Reader<'a> {
    body: &'a Bytes,
    at: usize,
}

/// The number of a head: a length, or "until the break".
type Length = Option<u64>;

impl<'a> Reader<'a> {
    fn value(&mut self, depth: u32) -> Result<Value<'a>, CborError> {
        let depth = depth.checked_sub(1).ok_or(CborError::TooDeep)?;
        let first = self.byte()?;
        match first >> 5 {
            0 => Ok(Value::Int(self.int(first)?)),
            1 => Ok(Value::Int(-1 - self.int(first)?)),
            2 => Ok(Value::Bytes(self.byte_string(first)?)),
            3 => Ok(Value::Text(self.text(first)?)),
            4 => {
                let length = self.length(first)?;
                let mut items = Vec::new();
                while self.more(length, items.len())? {
                    items.push(self.value(depth)?);
                }
                Ok(Value::List(items))
            }
            5 => {
                let length = self.length(first)?;
                let mut members = Vec::new();
                while self.more(length, members.len())? {
                    let Value::Text(name) = self.value(depth)? else {
                        return Err(CborError::KeyNotText);
                    };
                    members.push((name, self.value(depth)?));
                }
                Ok(Value::Map(members))
            }
            6 => self.tagged(first, depth),
            _ => self.simple(first),
        }
    }

    fn tagged(&mut self, first: u8, depth: u32) -> Result<Value<'a>, CborError> {
        let tag = self.length(first)?;
        match (tag, self.value(depth)?) {
            (Some(1), Value::Int(millis)) => Ok(Value::Timestamp(millis)),
            #[allow(clippy::cast_possible_truncation)] // a fraction of a millisecond
            (Some(1), Value::Float(millis)) => Ok(Value::Timestamp(millis as i64)),
            (Some(1), _) | (None, _) => Err(CborError::Unsupported(first)),
            (Some(_), value) => Ok(value),
        }
    }

    fn simple(&mut self, first: u8) -> Result<Value<'a>, CborError> {
        match first {
            0xF4 => Ok(Value::Bool(false)),
            0xF5 => Ok(Value::Bool(true)),
            0xF6 | 0xF7 => Ok(Value::Null),
            0xFA => Ok(Value::Float(f64::from(f32::from_be_bytes(self.array()?)))),
            0xFB => Ok(Value::Float(f64::from_be_bytes(self.array()?))),
            _ => Err(CborError::Unsupported(first)),
        }
    }

    fn int(&mut self, first: u8) -> Result<i64, CborError> {
        let n = self.length(first)?.ok_or(CborError::Unsupported(first))?;
        i64::try_from(n).map_err(|_| CborError::OutOfRange)
    }

    fn byte_string(&mut self, first: u8) -> Result<Bytes, CborError> {
        if let Some(length) = self.length(first)? {
            let range = self.take(length)?;
            return Ok(self.body.slice(range));
        }
        let mut whole = Vec::new();
        while self.more(None, 0)? {
            let chunk = self.chunk(2)?;
            whole.extend_from_slice(&self.body[chunk]);
        }
        Ok(whole.into())
    }

    fn text(&mut self, first: u8) -> Result<Cow<'a, str>, CborError> {
        let body: &'a [u8] = self.body;
        if let Some(length) = self.length(first)? {
            let range = self.take(length)?;
            return std::str::from_utf8(&body[range])
                .map(Cow::Borrowed)
                .map_err(|_| CborError::NotUtf8);
        }
        let mut whole = String::new();
        while self.more(None, 0)? {
            let chunk = self.chunk(3)?;
            whole.push_str(std::str::from_utf8(&body[chunk]).map_err(|_| CborError::NotUtf8)?);
        }
        Ok(Cow::Owned(whole))
    }

    /// One part of a string of indefinite length: itself a string of the same type and definite length.
    fn chunk(&mut self, major: u8) -> Result<std::ops::Range<usize>, CborError> {
        let first = self.byte()?;
        match self.length(first)? {
            Some(length) if first >> 5 == major => self.take(length),
            _ => Err(CborError::Unsupported(first)),
        }
    }

    /// Whether another element follows; eats the break that ends an indefinite length.
    fn more(&mut self, length: Length, seen: usize) -> Result<bool, CborError> {
        if let Some(length) = length {
            return Ok((seen as u64) < length);
        }
        let next = *self.body.get(self.at).ok_or(CborError::Truncated)?;
        if next == 0xFF {
            self.at += 1;
        }
        Ok(next != 0xFF)
    }

    fn length(&mut self, first: u8) -> Result<Length, CborError> {
        match first & 0x1F {
            n @ 0..=23 => Ok(Some(u64::from(n))),
            24 => Ok(Some(u64::from(self.byte()?))),
            25 => Ok(Some(u64::from(u16::from_be_bytes(self.array()?)))),
            26 => Ok(Some(u64::from(u32::from_be_bytes(self.array()?)))),
            27 => Ok(Some(u64::from_be_bytes(self.array()?))),
            31 if (2..=5).contains(&(first >> 5)) => Ok(None),
            _ => Err(CborError::Unsupported(first)),
        }
    }

    fn byte(&mut self) -> Result<u8, CborError> {
        self.array().map(|[byte]| byte)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], CborError> {
        let range = self.take(N as u64)?;
        self.body[range]
            .try_into()
            .map_err(|_| CborError::Truncated)
    }

    fn take(&mut self, length: u64) -> Result<std::ops::Range<usize>, CborError> {
        let end = usize::try_from(length)
            .ok()
            .and_then(|n| self.at.checked_add(n))
            .filter(|end| *end <= self.body.len());
        let range = self.at..end.ok_or(CborError::Truncated)?;
        self.at = range.end;
        Ok(range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Bytes {
        (0..hex.len())
            .step_by(2)
            .map(|i| u8::from_str_radix(&hex[i..i + 2], 16).expect("hex"))
            .collect()
    }

    #[test]
    fn what_is_written_is_read() {
        let numbers = [
            0,
            23,
            24,
            255,
            256,
            65_535,
            65_536,
            1 << 32,
            i64::MAX,
            -1,
            -24,
            -25,
            i64::MIN,
        ];
        let value = Value::map([
            ("ints", Value::list(numbers)),
            ("float", Value::Float(2.5)),
            ("text", Value::from("größe".to_owned())),
            ("blob", Value::Bytes(vec![0xFF; 300].into())),
            ("at", Value::Timestamp(1_764_500_000_123)),
            ("null", Value::Null),
            ("bools", Value::list([true, false])),
        ]);
        let mut out = Vec::new();
        write(&value, &mut out);
        assert_eq!(read(&out.into()), Ok(value));
    }

    #[test]
    fn forms_of_the_standard_are_read() {
        // (encoding, value): examples of RFC 8949, appendix A, where it has them
        let text = |s: &str| Value::from(s.to_owned());
        let cases = [
            ("1864", Value::Int(100)),
            ("3903e7", Value::Int(-1000)),
            ("fa47c35000", Value::Float(100_000.0)),
            ("c11a514b67b0", Value::Timestamp(1_363_896_240)),
            ("c1fb41d452d9ec200000", Value::Timestamp(1_363_896_240)),
            (
                "d74401020304",
                Value::Bytes(Bytes::from_static(&[1, 2, 3, 4])),
            ),
            (
                "5f42010243030405ff",
                Value::Bytes(Bytes::from_static(&[1, 2, 3, 4, 5])),
            ),
            ("7f657374726561646d696e67ff", text("streaming")),
            ("9f0102ff", Value::list([1_i64, 2])),
            (
                "bf6346756ef563416d7421ff",
                Value::map([("Fun", Value::Bool(true)), ("Amt", Value::Int(-2))]),
            ),
            ("f7", Value::Null),
        ];
        for (hex, value) in cases {
            assert_eq!(read(&bytes(hex)), Ok(value), "{hex}");
        }
    }

    #[test]
    fn malformed_bodies_are_refused() {
        let cases = [
            ("", CborError::Truncated),
            ("18", CborError::Truncated),
            ("4401", CborError::Truncated),
            ("5bffffffffffffffff", CborError::Truncated),
            ("9f01", CborError::Truncated),
            ("9bffffffffffffffff01", CborError::Truncated),
            ("0000", CborError::Trailing),
            ("61ff", CborError::NotUtf8),
            ("a10102", CborError::KeyNotText),
            ("1bffffffffffffffff", CborError::OutOfRange),
            ("1c", CborError::Unsupported(0x1C)),
            ("ff", CborError::Unsupported(0xFF)),
            ("5f6161ff", CborError::Unsupported(0x61)),
        ];
        for (hex, error) in cases {
            assert_eq!(read(&bytes(hex)), Err(error), "{hex}");
        }
        assert_eq!(read(&bytes(&"81".repeat(40))), Err(CborError::TooDeep));
    }
}
