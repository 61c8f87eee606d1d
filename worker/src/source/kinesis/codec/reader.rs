//! Reads answers by the SDK's own reader, and corrects its idea of timestamps: where it has seen seconds, it has seen
//! milliseconds.

use aws_smithy_cbor::codec::CborDeserializer;
use aws_smithy_schema::{
    Schema,
    serde::{SerdeError, ShapeDeserializer},
};
use aws_smithy_types::{BigDecimal, BigInteger, Blob, DateTime, Document};

type Outcome<T> = Result<T, SerdeError>;

/// What a [`Reader`] reads with: the SDK's reader, or what that hands to whoever reads the parts of a value.
pub(in super::super) trait Inner {
    fn inner(&self) -> &dyn ShapeDeserializer;
    fn inner_mut(&mut self) -> &mut dyn ShapeDeserializer;
}

impl Inner for CborDeserializer<'_> {
    fn inner(&self) -> &dyn ShapeDeserializer {
        self
    }

    fn inner_mut(&mut self) -> &mut dyn ShapeDeserializer {
        self
    }
}

impl Inner for &mut dyn ShapeDeserializer {
    fn inner(&self) -> &dyn ShapeDeserializer {
        &**self
    }

    fn inner_mut(&mut self) -> &mut dyn ShapeDeserializer {
        &mut **self
    }
}

/// Reads an answer, or a part of one.
pub(in super::super) struct Reader<D>(pub(super) D);

impl<D: Inner> ShapeDeserializer for Reader<D> {
    fn read_struct(
        &mut self,
        schema: &Schema<'_>,
        member: &mut dyn FnMut(&Schema<'_>, &mut dyn ShapeDeserializer) -> Outcome<()>,
    ) -> Outcome<()> {
        self.0
            .inner_mut()
            .read_struct(schema, &mut |schema, value| {
                member(schema, &mut Reader(value))
            })
    }

    fn read_list(
        &mut self,
        schema: &Schema<'_>,
        element: &mut dyn FnMut(&mut dyn ShapeDeserializer) -> Outcome<()>,
    ) -> Outcome<()> {
        self.0
            .inner_mut()
            .read_list(schema, &mut |value| element(&mut Reader(value)))
    }

    fn read_map(
        &mut self,
        schema: &Schema<'_>,
        entry: &mut dyn FnMut(String, &mut dyn ShapeDeserializer) -> Outcome<()>,
    ) -> Outcome<()> {
        self.0
            .inner_mut()
            .read_map(schema, &mut |key, value| entry(key, &mut Reader(value)))
    }

    fn read_boolean(&mut self, schema: &Schema<'_>) -> Outcome<bool> {
        self.0.inner_mut().read_boolean(schema)
    }

    fn read_byte(&mut self, schema: &Schema<'_>) -> Outcome<i8> {
        self.0.inner_mut().read_byte(schema)
    }

    fn read_short(&mut self, schema: &Schema<'_>) -> Outcome<i16> {
        self.0.inner_mut().read_short(schema)
    }

    fn read_integer(&mut self, schema: &Schema<'_>) -> Outcome<i32> {
        self.0.inner_mut().read_integer(schema)
    }

    fn read_long(&mut self, schema: &Schema<'_>) -> Outcome<i64> {
        self.0.inner_mut().read_long(schema)
    }

    fn read_float(&mut self, schema: &Schema<'_>) -> Outcome<f32> {
        self.0.inner_mut().read_float(schema)
    }

    fn read_double(&mut self, schema: &Schema<'_>) -> Outcome<f64> {
        self.0.inner_mut().read_double(schema)
    }

    fn read_big_integer(&mut self, schema: &Schema<'_>) -> Outcome<BigInteger> {
        self.0.inner_mut().read_big_integer(schema)
    }

    fn read_big_decimal(&mut self, schema: &Schema<'_>) -> Outcome<BigDecimal> {
        self.0.inner_mut().read_big_decimal(schema)
    }

    fn read_string(&mut self, schema: &Schema<'_>) -> Outcome<String> {
        self.0.inner_mut().read_string(schema)
    }

    fn read_blob(&mut self, schema: &Schema<'_>) -> Outcome<Blob> {
        self.0.inner_mut().read_blob(schema)
    }

    fn read_timestamp(&mut self, schema: &Schema<'_>) -> Outcome<DateTime> {
        let seconds = self.0.inner_mut().read_timestamp(schema)?.secs();
        Ok(DateTime::from_millis(seconds))
    }

    fn read_document(&mut self, schema: &Schema<'_>) -> Outcome<Document> {
        self.0.inner_mut().read_document(schema)
    }

    fn is_null(&self) -> bool {
        self.0.inner().is_null()
    }

    fn read_null(&mut self) -> Outcome<()> {
        self.0.inner_mut().read_null()
    }

    fn skip_value(&mut self) -> Outcome<()> {
        self.0.inner_mut().skip_value()
    }

    fn container_size(&self) -> Option<usize> {
        self.0.inner().container_size()
    }
}
