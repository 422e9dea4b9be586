//! Items that exceed memory, in a private temporary file.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::positional::{self, read_exact_at, write_all_at};
use crate::columns::quarantine::Position;
use crate::error::{Error, Result};
use crate::importers::items::{ItemRow, Piece};
use crate::run::Run;

/// A file without a name: it is gone when the process is, however that ends.
#[derive(Debug)]
pub(super) struct Spill {
    file: File,
    folder: PathBuf,
    len: u64,
}

/// A new file that no other process can open by a name.
fn nameless(folder: &Path) -> io::Result<File> {
    static MADE: AtomicU64 = AtomicU64::new(0);
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let path = folder.join(format!(".orchestrace-{}-{number}.tmp", std::process::id()));
    positional::nameless(&path)
}

/// All that a stream gives, as a file that can be read in any order.
pub(super) fn copied(mut stream: impl Read, folder: Option<&Path>, run: &Run) -> io::Result<File> {
    let mut file = nameless(folder.unwrap_or(&std::env::temp_dir()))?;
    let mut buffer = vec![0; 256 << 10];
    loop {
        run.check().map_err(io::Error::other)?;
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(file),
            Ok(n) => file.write_all(&buffer[..n])?,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

/// Where a piece lies.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    at: u64,
    /// Bytes of what describes it, and of its text.
    head: usize,
    text: usize,
}

impl Spill {
    /// In a folder, or in the system's folder for temporary files.
    pub(super) fn new(folder: Option<&Path>) -> Result<Self> {
        let folder = folder.map_or_else(std::env::temp_dir, Path::to_path_buf);
        let file = nameless(&folder).map_err(|source| refused(&folder, source))?;
        Ok(Self { file, folder, len: 0 })
    }

    /// Appends a piece.
    pub(super) fn write(&mut self, piece: &Piece) -> Result<Place> {
        let mut head = Vec::with_capacity(16 + 16 * piece.contexts.len() + ROW * piece.rows.len());
        put(&mut head, piece.contexts.len());
        put(&mut head, piece.rows.len());
        for (from, to) in &piece.contexts {
            put(&mut head, *from);
            put(&mut head, *to);
        }
        for row in &piece.rows {
            let ItemRow { trace, own, source, record, start, end, context, position, replaced, lost, hash } =
                *row;
            for value in [u64::from(trace) << 32 | u64::from(source), record, start as u64, end as u64] {
                head.extend_from_slice(&value.to_le_bytes());
            }
            let Position { line, offset, length } = position;
            for value in [
                line,
                offset,
                length,
                u64::from(context) << 2 | u64::from(lost) << 1 | u64::from(replaced),
                own.into(),
                hash,
            ] {
                head.extend_from_slice(&value.to_le_bytes());
            }
        }
        let place = Place { at: self.len, head: head.len(), text: piece.text.len() };
        let text_at = self.len + head.len() as u64;
        let written = write_all_at(&self.file, &head, self.len)
            .and_then(|()| write_all_at(&self.file, piece.text.as_bytes(), text_at));
        written.map_err(|source| refused(&self.folder, source))?;
        self.len = text_at + piece.text.len() as u64;
        Ok(place)
    }

    /// Reads a piece back.
    pub(super) fn read(&self, place: Place) -> Result<Piece> {
        let damaged = || io::Error::other("the temporary file was changed or damaged after it was written");
        let read = || -> io::Result<Piece> {
            let mut head = vec![0; place.head];
            read_exact_at(&self.file, &mut head, place.at)?;
            let mut text = vec![0; place.text];
            read_exact_at(&self.file, &mut text, place.at + place.head as u64)?;
            simdutf8::basic::from_utf8(&text).map_err(|_| damaged())?;
            let text = String::from_utf8(text).map_err(|_| damaged())?;
            let (words, []) = head.as_chunks::<8>() else { return Err(damaged()) };
            let mut words = words.iter().map(|word| u64::from_le_bytes(*word));
            let mut next = || words.next().ok_or_else(damaged);
            let (contexts, rows) = (next()? as usize, next()? as usize);
            let mut piece = Piece { text, ..Piece::default() };
            for _ in 0..contexts {
                piece.contexts.push((next()? as usize, next()? as usize));
            }
            for _ in 0..rows {
                let (codes, record, start, end) = (next()?, next()?, next()? as usize, next()? as usize);
                let position = Position { line: next()?, offset: next()?, length: next()? };
                let (last, own, hash) = (next()?, next()? as u32, next()?);
                piece.rows.push(ItemRow {
                    trace: (codes >> 32) as u32,
                    own,
                    source: codes as u32,
                    record,
                    start,
                    end,
                    context: (last >> 2) as u32,
                    position,
                    replaced: last & 1 == 1,
                    lost: last & 2 == 2,
                    hash,
                });
            }
            Ok(piece)
        };
        read().map_err(|source| refused(&self.folder, source))
    }
}

/// Bytes of a row in the file.
const ROW: usize = 10 * 8;

fn put(head: &mut Vec<u8>, value: usize) {
    head.extend_from_slice(&(value as u64).to_le_bytes());
}

fn refused(folder: &Path, source: io::Error) -> Error {
    let path = format!("{} (temporary file for traces spread over files)", folder.display());
    Error::Io { path, source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::importers::items::NO_CONTEXT;
    use crate::importers::items::Shared;

    #[test]
    fn pieces_come_back() {
        let mut piece = Piece::default();
        let row = ItemRow {
            trace: 7,
            own: 6,
            source: u32::MAX,
            record: 1 << 40,
            start: 0,
            end: 0,
            context: NO_CONTEXT,
            position: Position { line: 3, offset: 1 << 50, length: 9 },
            replaced: true,
            lost: true,
            hash: 1 << 63,
        };
        piece.push(row, "é first", Shared::Text("shared"));
        piece.push(ItemRow { trace: 8, replaced: false, lost: false, ..row }, "", Shared::Text(""));
        piece.push(row, "third", Shared::Text("shared"));
        let mut spill = Spill::new(None).unwrap();
        let empty = spill.write(&Piece::default()).unwrap();
        let place = spill.write(&piece).unwrap();
        assert_eq!(spill.read(empty).unwrap(), Piece::default());
        assert_eq!(spill.read(place).unwrap(), piece);
        assert_eq!(piece.context(&piece.rows[2]), "shared");
        assert_eq!(piece.contexts.len(), 1);
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let error = Spill::new(Some(Path::new("/no/such/folder"))).unwrap_err().to_string();
        assert!(error.contains("/no/such/folder"), "{error}");
    }
}
