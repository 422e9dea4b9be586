//! Original records of an input by position, so that users can repair quarantined ones.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::Path;
use std::sync::Arc;

use super::ReadOptions;
use super::rows::{HEAD, is_rows};
use super::source::decoded;
use crate::error::{Error, Result};
use crate::run::Run;

/// Copies the records at `places` (offset in the decompressed stream and length, ascending by offset) to `sink`, a
/// line each; a line end inside of one becomes a space, which JSON takes for the same outside of strings and refuses
/// within. How many were there; a damaged stream ends early.
pub fn copy_records(
    path: &Path,
    places: &[(u64, u64)],
    options: &ReadOptions,
    sink: &mut dyn Write,
    run: &Run,
) -> Result<u64> {
    let name = || path.to_string_lossy().into_owned();
    let unreadable = |source| Error::Io { path: name(), source };
    let mut input = bytes_of(path, options).map_err(unreadable)?;
    let mut copy = Copy { at: 0, buffer: vec![0; 256 << 10], run };
    let mut copied = 0;
    run.expect(places.len() as u64);
    for (offset, length) in places {
        let Some(skipped) = offset.checked_sub(copy.at) else {
            return Err(Error::Parameter("places must be ascending and must not overlap".into()));
        };
        if copy.pass(&mut input, skipped, &mut io::sink())? < skipped {
            break;
        }
        let mut line = Flat(sink);
        let written = copy.pass(&mut input, *length, &mut line)?;
        sink.write_all(b"\n").map_err(Copy::refused)?;
        copied += 1;
        run.advance(1);
        if written < *length {
            break;
        }
    }
    Ok(copied)
}

/// The bytes that positions count: decompressed, and of rows their lines.
fn bytes_of(path: &Path, options: &ReadOptions) -> io::Result<Box<dyn Read + Send>> {
    let mut file = File::open(path)?;
    let mut head = Vec::new();
    (&mut file).take(HEAD as u64).read_to_end(&mut head)?;
    if let Some(opener) = options.rows.as_ref().filter(|_| is_rows(&head)) {
        return Ok(Box::new(opener.lines(path, &Arc::default())?));
    }
    file.rewind()?;
    decoded(Box::new(file))
}

/// Where the input stands.
struct Copy<'a> {
    at: u64,
    buffer: Vec<u8>,
    run: &'a Run,
}

impl Copy<'_> {
    fn refused(source: io::Error) -> Error {
        Error::Io { path: "the target".into(), source }
    }

    /// Passes bytes on; how many there were.
    fn pass(&mut self, input: &mut dyn Read, length: u64, sink: &mut dyn Write) -> Result<u64> {
        let mut left = length;
        while left > 0 {
            self.run.check()?;
            let want = self.buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            match input.read(&mut self.buffer[..want]) {
                Ok(0) => break,
                Ok(n) => {
                    sink.write_all(&self.buffer[..n]).map_err(Self::refused)?;
                    self.at += n as u64;
                    left -= n as u64;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                // What a damaged stream still gave is the record.
                Err(_) => break,
            }
        }
        Ok(length - left)
    }
}

/// Writes line ends as spaces.
struct Flat<'a>(&'a mut dyn Write);

impl Write for Flat<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut start = 0;
        for at in memchr::memchr2_iter(b'\n', b'\r', bytes) {
            self.0.write_all(&bytes[start..at])?;
            self.0.write_all(b" ")?;
            start = at + 1;
        }
        self.0.write_all(&bytes[start..])?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_as_lines() {
        let path = std::env::temp_dir().join(format!("orchestrace-extract-{}", std::process::id()));
        std::fs::write(&path, b"{a}\n{b\nc}\n{d}").expect("a temporary file");
        let (run, options) = (Run::new(Some(1)).expect("one thread"), ReadOptions::default());
        let mut out = Vec::new();
        assert_eq!(copy_records(&path, &[(0, 3), (4, 5), (10, 9)], &options, &mut out, &run).ok(), Some(3));
        assert_eq!(out, b"{a}\n{b c}\n{d}\n");
        assert!(copy_records(&path, &[(4, 5), (0, 3)], &options, &mut out, &run).is_err());
        std::fs::remove_file(&path).expect("it was there");
    }
}
