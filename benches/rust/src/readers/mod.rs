//! One reader per JSON parser. All fill the same [`Columns`] from the same documents.

mod cursor;
mod jiter;
mod serde_stream;
mod simd_tape;
mod sonic_lazy;

use crate::columns::Columns;
use crate::corpus::Block;

/// Why a document cannot be read.
#[derive(Debug)]
pub struct Refusal {
    /// Byte of the document, where the parser tells one.
    pub at: Option<usize>,
    /// In the words of the parser.
    pub message: String,
}

impl Refusal {
    fn new(at: Option<usize>, message: &dyn ToString) -> Self {
        Self { at, message: message.to_string() }
    }

    /// The document has a value of the wrong kind: the benches only read documents of the right form.
    fn form(what: &str) -> Self {
        Self::new(None, &format!("expected {what}"))
    }
}

/// The result of reading.
pub type Read<T = ()> = Result<T, Box<Refusal>>;

/// A parser that fills columns.
pub trait Reader {
    /// Name in reports.
    fn name(&self) -> &'static str;

    /// Reads one document, which is `bytes[..len]`. The [`PADDING`](crate::corpus::PADDING) bytes after it may
    /// be looked at; the document may be changed in place.
    fn document(&mut self, bytes: &mut [u8], len: usize, out: &mut Columns) -> Read;

    /// Reads all documents of a block into emptied columns.
    fn block(&mut self, block: &mut Block, out: &mut Columns) -> Read {
        out.clear();
        let Block { bytes, documents } = block;
        for &(start, end) in documents.iter() {
            self.document(&mut bytes[start..], end - start, out)?;
            out.end_document();
        }
        Ok(())
    }
}

/// All readers, ours first.
#[must_use]
pub fn readers() -> Vec<Box<dyn Reader>> {
    vec![
        Box::new(cursor::Guessing::default()),
        Box::new(cursor::Plain::default()),
        Box::new(jiter::Jiter::default()),
        Box::new(sonic_lazy::SonicLazy),
        Box::new(serde_stream::Sonic),
        Box::new(simd_tape::SimdTape::default()),
        Box::new(serde_stream::SerdeJson),
    ]
}

/// Every reader here that takes text has the bytes judged first, as ingest does.
fn utf8(bytes: &[u8]) -> Read<&str> {
    simdutf8::compat::from_utf8(bytes)
        .map_err(|e| Box::new(Refusal::new(Some(e.valid_up_to()), &"invalid UTF-8")))
}
