//! Writes requests. The SDK's own writer cannot be used: it makes timestamps floating-point seconds.

use aws_smithy_schema::{
    Schema,
    codec::FinishSerializer,
    serde::{SerdeError, SerializableStruct, ShapeSerializer},
};
use aws_smithy_types::{BigDecimal, BigInteger, Blob, DateTime, Document};
use minicbor::{Encoder, data::IanaTag};

type Outcome = Result<(), SerdeError>;
type Parts<'f> = &'f dyn Fn(&mut dyn ShapeSerializer) -> Outcome;
type Fault = minicbor::encode::Error<std::convert::Infallible>;

/// Writes one request.
pub(in super::super) struct Writer {
    out: Encoder<Vec<u8>>,
    /// Members of structures are named; elements of lists are not, and map entries bring their keys as strings.
    named: bool,
}

impl Default for Writer {
    fn default() -> Self {
        Writer {
            out: Encoder::new(Vec::new()),
            named: false,
        }
    }
}

impl Writer {
    fn name(&mut self, schema: &Schema<'_>) -> Outcome {
        match schema.member_name() {
            Some(name) if self.named => self.out.str(name).map(drop).map_err(fault),
            _ => Ok(()),
        }
    }

    /// Names a member and writes its value.
    fn member(
        &mut self,
        schema: &Schema<'_>,
        value: impl FnOnce(&mut Encoder<Vec<u8>>) -> Result<&mut Encoder<Vec<u8>>, Fault>,
    ) -> Outcome {
        self.name(schema)?;
        value(&mut self.out).map(drop).map_err(fault)
    }

    /// Writes what is between a head that was written and its break.
    fn nested(&mut self, named: bool, parts: impl FnOnce(&mut Self) -> Outcome) -> Outcome {
        let outside = std::mem::replace(&mut self.named, named);
        parts(self)?;
        self.named = outside;
        self.out.end().map(drop).map_err(fault)
    }
}

fn fault(error: Fault) -> SerdeError {
    SerdeError::custom(error.to_string())
}

fn foreign(kind: &str) -> Outcome {
    Err(SerdeError::unsupported(format!(
        "the API of Kinesis has no {kind}"
    )))
}

impl FinishSerializer for Writer {
    fn finish(self) -> Vec<u8> {
        self.out.into_writer()
    }
}

impl ShapeSerializer for Writer {
    fn write_struct(&mut self, schema: &Schema<'_>, value: &dyn SerializableStruct) -> Outcome {
        self.member(schema, Encoder::begin_map)?;
        self.nested(true, |writer| value.serialize_members(writer))
    }

    fn write_list(&mut self, schema: &Schema<'_>, elements: Parts<'_>) -> Outcome {
        self.member(schema, Encoder::begin_array)?;
        self.nested(false, |writer| elements(writer))
    }

    fn write_map(&mut self, schema: &Schema<'_>, entries: Parts<'_>) -> Outcome {
        self.member(schema, Encoder::begin_map)?;
        self.nested(false, |writer| entries(writer))
    }

    fn write_boolean(&mut self, schema: &Schema<'_>, value: bool) -> Outcome {
        self.member(schema, |out| out.bool(value))
    }

    fn write_byte(&mut self, schema: &Schema<'_>, value: i8) -> Outcome {
        self.member(schema, |out| out.i8(value))
    }

    fn write_short(&mut self, schema: &Schema<'_>, value: i16) -> Outcome {
        self.member(schema, |out| out.i16(value))
    }

    fn write_integer(&mut self, schema: &Schema<'_>, value: i32) -> Outcome {
        self.member(schema, |out| out.i32(value))
    }

    fn write_long(&mut self, schema: &Schema<'_>, value: i64) -> Outcome {
        self.member(schema, |out| out.i64(value))
    }

    fn write_float(&mut self, schema: &Schema<'_>, value: f32) -> Outcome {
        self.member(schema, |out| out.f32(value))
    }

    fn write_double(&mut self, schema: &Schema<'_>, value: f64) -> Outcome {
        self.member(schema, |out| out.f64(value))
    }

    fn write_big_integer(&mut self, _: &Schema<'_>, _: &BigInteger) -> Outcome {
        foreign("big integers")
    }

    fn write_big_decimal(&mut self, _: &Schema<'_>, _: &BigDecimal) -> Outcome {
        foreign("big decimals")
    }

    fn write_string(&mut self, schema: &Schema<'_>, value: &str) -> Outcome {
        self.member(schema, |out| out.str(value))
    }

    fn write_blob(&mut self, schema: &Schema<'_>, value: Blob) -> Outcome {
        self.member(schema, |out| out.bytes(value.as_ref()))
    }

    fn write_timestamp(&mut self, schema: &Schema<'_>, value: &DateTime) -> Outcome {
        let millis = value
            .to_millis()
            .map_err(|error| SerdeError::custom(error.to_string()))?;
        self.member(schema, |out| out.tag(IanaTag::Timestamp)?.i64(millis))
    }

    fn write_document(&mut self, _: &Schema<'_>, _: &Document) -> Outcome {
        foreign("documents")
    }

    fn write_null(&mut self, schema: &Schema<'_>) -> Outcome {
        self.member(schema, Encoder::null)
    }
}
