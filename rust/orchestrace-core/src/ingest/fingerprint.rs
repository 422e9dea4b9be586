//! The BLAKE3 fingerprint of a file, which shows whether it has changed.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::error::{Error, Result};
use crate::run::Run;

/// The BLAKE3 hash of a file's first `len` bytes as hexadecimal digits; all of it where it is shorter. Reads the
/// file once, in steps of 1 MiB, and counts them as work done.
pub fn fingerprint(path: &Path, len: u64, run: &Run) -> Result<String> {
    let failed = |source| Error::Io { path: path.to_string_lossy().into_owned(), source };
    let mut file = File::open(path).map_err(failed)?.take(len);
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        run.check()?;
        match file.read(&mut buffer) {
            Ok(0) => return Ok(hasher.finalize().to_hex().to_string()),
            Ok(n) => {
                hasher.update(&buffer[..n]);
                run.advance(n as u64);
            }
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(failed(e)),
        }
    }
}
