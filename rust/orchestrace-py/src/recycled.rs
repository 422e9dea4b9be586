//! Memory of dropped results, reused for later ones.
//!
//! Half of the time of a kernel that does little per number is the first touch of the pages that it writes to: the
//! allocator gives large blocks back as soon as they are free. A trainer asks for as many numbers again and again.

use std::sync::Mutex;

use arrow_array::Float64Array;
use arrow_buffer::{Buffer, ScalarBuffer};
use bytes::Bytes;

/// No more than this is kept, in numbers: 64 MiB.
const MOST: usize = 8 << 20;

static KEPT: Mutex<Vec<f64>> = Mutex::new(Vec::new());

/// The memory that is kept, whatever is in it, if there are to be no more than `n` numbers and not far fewer than it has.
pub(crate) fn room_for(n: usize) -> Vec<f64> {
    match KEPT.try_lock() {
        Ok(mut kept) if n <= kept.capacity() && kept.capacity() / 4 <= n => std::mem::take(&mut kept),
        _ => Vec::new(),
    }
}

/// A column over `numbers`, whose memory is kept when the last who holds it drops it.
pub(crate) fn column(numbers: Vec<f64>) -> Float64Array {
    let buffer = Buffer::from(Bytes::from_owner(Lent(numbers)));
    Float64Array::new(ScalarBuffer::from(buffer), None)
}

struct Lent(Vec<f64>);

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // not waited for: a child process may begin with a lock that nobody holds any more
        if let Ok(mut kept) = KEPT.try_lock()
            && self.0.capacity() <= MOST
        {
            *kept = std::mem::take(&mut self.0);
        }
    }
}
