//! What lies between bytes and records: blocks, compression, archives.

use std::io::{self, Read};

use orchestrace_core::ingest::ReadOptions;
use orchestrace_core::schema::TABLES;

use super::reading::{
    Scratch, compressed, from_file, from_stream, is_compressed, option_sets, reconciles, rejects, settles,
};

/// The tables do not depend on the size of blocks, on threads, or on who reads the file.
pub(crate) fn tables_do_not_depend_on_the_cut(bytes: &[u8]) {
    let file = Scratch::new(bytes);
    let [plain, low] = option_sets();
    // A few dozen blocks: of single bytes where there are few.
    let (short, long) = (1 + bytes.len() / 40, 1 + bytes.len() / 6);
    for (options, cuts) in [(plain, [(short, 2), (long, 1)]), (low, [(short, 1), (long, 2)])] {
        let wanted = (from_stream(bytes, &options, 1), from_file(&file, &options, 1));
        for (block_size, threads) in cuts {
            let options = ReadOptions { block_size, ..options.clone() };
            let stores = (from_stream(bytes, &options, threads), from_file(&file, &options, threads));
            for table in TABLES {
                let [a, b, c, d] =
                    [&wanted.0, &stores.0, &wanted.1, &stores.1].map(|s| s.combined(table.name).unwrap());
                assert_eq!(a, b, "{} of a stream in blocks of {block_size}", table.name);
                assert_eq!(c, d, "{} of a file in blocks of {block_size}", table.name);
            }
        }
    }
}

/// Most bytes that a stream may become in the property below.
const DECOMPRESSED: u64 = 1 << 16;

/// A compressed stream ends, within its limits; it holds what other decoders find in it; and where they give up
/// there is a reject that says so.
pub(crate) fn decompression_ends_within_its_limits(bytes: &[u8]) {
    let options =
        ReadOptions { max_decompressed: DECOMPRESSED, block_size: 1 << 12, ..ReadOptions::default() };
    let store = from_stream(bytes, &options, 1);
    if !is_compressed(bytes) {
        reconciles(&store, bytes.len() as u64);
        return;
    }
    reconciles(&store, DECOMPRESSED);
    let broke = rejects(&store).iter().any(|code| matches!(*code, "input.truncated" | "input.expansion"));
    // Of a frame that ends in an empty block, libzstd judges the size that it declares only if there is room for that.
    let decoded = reference(bytes, Vec::new());
    if decoded != reference(bytes, Vec::with_capacity(DECOMPRESSED as usize + 2)) {
        return;
    }
    match decoded {
        Some(decoded) if decoded.len() as u64 > DECOMPRESSED => assert!(broke, "the limit was passed"),
        // What is compressed twice is not looked into twice.
        Some(decoded) if !is_compressed(&decoded) => {
            let plain = from_stream(&decoded, &options, 1);
            for table in TABLES {
                let [a, b] = [&store, &plain].map(|store| store.combined(table.name).unwrap());
                assert_eq!(a, b, "{}", table.name);
            }
        }
        Some(_) => {}
        // Zeros behind the last member of a gzip file are padding, of which the other decoder does not know.
        None => assert!(broke || bytes.ends_with(&[0]), "a fault was not told"),
    }
}

/// What a decoder that is not ours finds, up to a byte beyond the limit. It gets the bytes in the pieces in which the
/// engine gets them: of a frame that ends in an empty block, libzstd judges the size that it declares only if all of
/// the frame comes at once.
fn reference(bytes: &[u8], mut out: Vec<u8>) -> Option<Vec<u8>> {
    let (magic, rest) = bytes.split_at(bytes.len().min(4));
    let pieces = io::Cursor::new(magic).chain(rest);
    let decoder: Box<dyn Read + '_> = if bytes.starts_with(&[0x1f, 0x8b]) {
        Box::new(flate2::bufread::MultiGzDecoder::new(pieces))
    } else {
        Box::new(zstd::stream::read::Decoder::new(pieces).ok()?)
    };
    decoder.take(DECOMPRESSED + 1).read_to_end(&mut out).ok()?;
    Some(out)
}

/// The same of bytes that are made of what is to be read: the first two say how they are compressed, into how many
/// members, and what is wrong with it.
pub(crate) fn damaged_streams_end_within_their_limits(bytes: &[u8]) {
    let [how, place, payload @ ..] = bytes else { return };
    let kind = 1 + how % 2;
    let middle = payload.len() * usize::from(*place) / 256;
    let mut packed = compressed(&payload[..middle], kind);
    packed.extend(compressed(&payload[middle..], kind));
    let at = packed.len() * usize::from(*place) / 256;
    match how / 2 % 6 {
        0 => {}
        1 => packed.truncate(at),
        2 => packed.extend_from_slice(b"noise"),
        3 => packed.extend_from_slice(&[0; 40]),
        4 => packed[at] ^= 1 << (how >> 5),
        // A frame of zstd that is to be skipped, which in gzip is noise.
        _ => packed.extend_from_slice(b"\x50\x2a\x4d\x18\x03\0\0\0abc"),
    }
    decompression_ends_within_its_limits(&packed);
}

/// An archive ends, within the limits of what it unpacks to, and its records are settled; `magic` is what it begins with.
pub(crate) fn archives_end_within_their_limits(magic: &[u8], bytes: &[u8]) {
    let options =
        ReadOptions { max_decompressed: DECOMPRESSED, block_size: 1 << 12, ..ReadOptions::default() };
    let bytes = if bytes.starts_with(magic) { bytes.to_vec() } else { [magic, bytes].concat() };
    let store = from_stream(&bytes, &options, 1);
    settles(&store, u64::MAX);
}
