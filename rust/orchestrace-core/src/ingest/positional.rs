//! Positional file reads and writes, and private files, on each operating system.
//!
//! On Windows such a call moves the file's cursor, on Unix it does not: a file that is read here is never read through
//! its cursor at the same time.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

/// Reads what there is at a place, up to the end of the buffer; 0 bytes beyond the end of the file.
pub(super) fn read_at(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    system::read_at(file, buffer, at)
}

/// Fills the buffer from a place.
pub(super) fn read_exact_at(file: &File, buffer: &mut [u8], at: u64) -> io::Result<()> {
    let wanted = buffer.len();
    if read_full_at(file, buffer, at)? < wanted {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(())
}

/// Fills the buffer from a place as far as the file goes; the bytes that were read.
pub(super) fn read_full_at(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match read_at(file, &mut buffer[done..], at + done as u64) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}

/// Writes all bytes at a place.
pub(super) fn write_all_at(file: &File, mut bytes: &[u8], mut at: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match system::write_at(file, bytes, at) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => {
                bytes = &bytes[n..];
                at += n as u64;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// A new file that no other process can open by its name, and that is gone when it is closed, however that happens.
pub(super) fn nameless(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    system::nameless(options.read(true).write(true).create_new(true), path)
}

#[cfg(unix)]
mod system {
    use std::fs::{File, OpenOptions};
    use std::io;
    use std::os::unix::fs::{FileExt, OpenOptionsExt};
    use std::path::Path;

    pub(super) fn read_at(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        file.read_at(buffer, at)
    }

    pub(super) fn write_at(file: &File, bytes: &[u8], at: u64) -> io::Result<usize> {
        file.write_at(bytes, at)
    }

    pub(super) fn nameless(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
        let file = options.mode(0o600).open(path)?;
        std::fs::remove_file(path)?;
        Ok(file)
    }
}

#[cfg(windows)]
mod system {
    use std::fs::{File, OpenOptions};
    use std::io;
    use std::os::windows::fs::{FileExt, OpenOptionsExt};
    use std::path::Path;

    /// `FILE_FLAG_DELETE_ON_CLOSE`: a file that is open keeps its name on this system.
    const DELETE_ON_CLOSE: u32 = 0x0400_0000;

    pub(super) fn read_at(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        file.seek_read(buffer, at)
    }

    pub(super) fn write_at(file: &File, bytes: &[u8], at: u64) -> io::Result<usize> {
        file.seek_write(bytes, at)
    }

    pub(super) fn nameless(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
        options.share_mode(0).custom_flags(DELETE_ON_CLOSE).open(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new_file(name: &str) -> File {
        let path =
            std::env::temp_dir().join(format!(".orchestrace-positional-{}-{name}.tmp", std::process::id()));
        let file = nameless(&path).unwrap();
        #[cfg(unix)]
        assert!(!path.exists());
        file
    }

    #[test]
    fn bytes_come_back_from_where_they_were_put() {
        let file = new_file("places");
        write_all_at(&file, b"later", 1000).unwrap();
        write_all_at(&file, b"first", 0).unwrap();
        let mut five = [0; 5];
        read_exact_at(&file, &mut five, 1000).unwrap();
        assert_eq!(&five, b"later");
        read_exact_at(&file, &mut five, 0).unwrap();
        assert_eq!(&five, b"first");
        assert_eq!(file.metadata().unwrap().len(), 1005);
    }

    #[test]
    fn the_end_of_a_file_is_no_error_unless_bytes_are_due() {
        let file = new_file("end");
        write_all_at(&file, b"0123456789", 0).unwrap();
        let mut buffer = [b'x'; 8];
        assert_eq!(read_full_at(&file, &mut buffer, 7).unwrap(), 3);
        assert_eq!(&buffer, b"789xxxxx");
        assert_eq!(read_at(&file, &mut buffer, 10).unwrap(), 0);
        assert_eq!(read_at(&file, &mut buffer, 1 << 40).unwrap(), 0);
        let early = read_exact_at(&file, &mut buffer, 7).unwrap_err();
        assert_eq!(early.kind(), io::ErrorKind::UnexpectedEof);
        read_exact_at(&file, &mut [], 99).unwrap();
    }

    #[test]
    fn a_name_that_is_taken_is_refused() {
        let path = std::env::temp_dir().join(format!(".orchestrace-taken-{}.tmp", std::process::id()));
        std::fs::write(&path, b"kept").unwrap();
        let refused = nameless(&path).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&path).unwrap(), b"kept");
        std::fs::remove_file(&path).unwrap();
    }
}
